"""Handles torch's errors and memory for the engines that compute in this process, without a server."""

import gc
import logging
import os
import re
from collections.abc import Callable
from typing import TypeVar

from cosmos_batch.contract.error import Failure

T = TypeVar("T")

GPU_LOST = 70  # exit status of a worker whose CUDA context is unusable

# The wording of torch and CUDA, in an exception's name or in its message; cuBLAS and cuDNN have a status of their own.
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|STATUS_ALLOC_FAILED", re.IGNORECASE)
_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
_ALLOCATORS = (_ALLOCATOR, "PYTORCH_ALLOC_CONF")  # the second is its name since torch 2.9, which reads both

log = logging.getLogger(__name__)


def mentions_out_of_memory(text: str) -> bool:
    """Return whether a message of torch or CUDA says that a GPU's memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None


def expandable_segments() -> dict[str, str]:
    """Return environment variables with which torch grows its memory segments, for a process that has not imported it.

    With segments of fixed size, jobs of many sizes fragment a GPU's memory. NVIDIA names this setting as the first
    remedy for memory that runs out (docs/inference.md and docs/faq.md of Cosmos Framework). vLLM with a custom
    all-reduce, hence with tensor parallelism, cannot use it: it exports memory between processes, which such segments
    do not allow (vllm-project/vllm issue 42609). Returns nothing where the allocator is configured already.
    """
    return {} if any(name in os.environ for name in _ALLOCATORS) else {_ALLOCATOR: "expandable_segments:True"}


def run_with_failures(parameters: str, work: Callable[..., T], *arguments: object) -> T:
    """Run one job's work in this process and turn every exception into a Failure (EngineFailed).

    If a GPU's memory ran out, the failure is not retryable: jobs compute one at a time, so the same job would need as
    much again. The host's memory is shared with other jobs and workers, so that failure is retryable. If the GPU's CUDA
    context is lost, the process exits with `GPU_LOST`, because every later job would fail too.

    Parameters
    ----------
    parameters
        The request's parameters that need less memory when lowered, for the remedy.
    """
    try:
        return work(*arguments)
    except Failure:
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or _gpu_memory_ran_out(error):
            free_memory()
            raise Failure(
                "EngineFailed",
                f"Memory ran out on this job: {error}",
                f"Lower {parameters}, or choose an instance type with more memory.",
                retryable=isinstance(error, MemoryError),
            ) from error
        if _gpu_is_lost(error):
            # The jobs in this worker run again one at a time, because any of them may be the cause.
            log.critical("the GPU's context is lost: %s", error)
            os._exit(GPU_LOST)
        raise Failure(
            "EngineFailed",
            f"The engine failed on this job: {type(error).__name__}: {error}",
            "Try it again; if it fails again, report it with the worker's log.",
            retryable=True,
        ) from error


def free_memory() -> None:
    """Collect garbage and return torch's unused memory to the GPU."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _gpu_memory_ran_out(error: Exception) -> bool:
    """Return whether a GPU's memory ran out, for torch's allocator or, as a "CUDA error", for a library beside it.

    The second leaves the CUDA context usable, as the first does: CUDA counts it among the errors that are not sticky.
    """
    return mentions_out_of_memory(f"{type(error).__name__}: {error}")


def _gpu_is_lost(error: Exception) -> bool:
    """Return whether the error is one of the device, such as a failed assertion: CUDA then refuses all further work."""
    import torch

    return isinstance(error, torch.AcceleratorError) or "CUDA error" in str(error)
