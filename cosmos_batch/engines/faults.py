"""Errors of a library that computes in our own process, as failures that a person can act on."""

import gc
import logging
import os
import re
from collections.abc import Callable
from typing import TypeVar

from cosmos_batch.contract.error import Failure

T = TypeVar("T")

GPU_LOST = 70  # exit status of a worker whose GPU cannot be used any more

# What torch and CUDA call it, in an exception's name or in what a server says of one.
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory", re.IGNORECASE)
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
_ALLOCATORS = (_ALLOCATOR, "PYTORCH_ALLOC_CONF")  # the second is its name since torch 2.9, which reads both

log = logging.getLogger(__name__)


def says_out_of_memory(text: str) -> bool:
    """Whether a program says that a GPU's memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None


def expandable_segments() -> dict[str, str]:
    """Variables that let torch grow what it holds of a GPU's memory piece by piece, for a process that has not
    imported it yet; none where somebody has set torch's allocator already.

    Jobs of many sizes one after the other leave holes between blocks of a fixed size. NVIDIA names this as the first
    remedy for memory that runs out (docs/inference.md and docs/faq.md of Cosmos Framework). vLLM with a custom
    all-reduce, hence with tensor parallelism, may not have it: what it shares between processes cannot be exported
    from such memory (vllm-project/vllm issue 42609).
    """
    return {} if any(name in os.environ for name in _ALLOCATORS) else {_ALLOCATOR: "expandable_segments:True"}


def guarded(less: str, work: Callable[..., T], *arguments: object) -> T:
    """Run one job's work. What is no Failure yet is the engine's: memory that ran out, or an error of a library.

    A GPU's memory that ran out is not retryable: one job at a time computes on it, so that the same job would need as
    much again. The host's memory is shared with other jobs and workers, which may be done by the next attempt.
    `less` says which parameters need less memory.
    """
    import torch

    try:
        return work(*arguments)
    except Failure:
        raise
    except (torch.OutOfMemoryError, MemoryError) as error:
        free_memory()
        raise Failure(
            "EngineFailed",
            f"Memory ran out on this job: {error}",
            f"Lower {less}, or choose an instance type with more memory.",
            retryable=isinstance(error, MemoryError),
        ) from error
    except Exception as error:
        if _gpu_is_lost(error):
            # Every later job would fail too, and none of them is to blame: they become suspects and run alone.
            log.critical("the GPU's context is lost: %s", error)
            os._exit(GPU_LOST)
        raise Failure(
            "EngineFailed",
            f"The engine failed on this job: {type(error).__name__}: {error}",
            "Try it again; if it fails again, report it with the worker's log.",
            retryable=True,
        ) from error


def free_memory() -> None:
    """Give the GPU back what nothing refers to."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _gpu_is_lost(error: Exception) -> bool:
    """After an error of the device (an assertion, an illegal access) nothing runs in this process any more."""
    import torch

    return isinstance(error, torch.AcceleratorError) or "CUDA error" in str(error)
