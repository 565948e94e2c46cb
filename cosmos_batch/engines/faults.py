"""Errors of a library that computes in our own process, as failures that a person can act on."""

import gc
import logging
import os
from collections.abc import Callable
from typing import TypeVar

from cosmos_batch.contract.error import Failure

T = TypeVar("T")

GPU_LOST = 70  # exit status of a worker whose GPU cannot be used any more

log = logging.getLogger(__name__)


def guarded(less: str, work: Callable[..., T], *arguments: object) -> T:
    """Run one job's work. What is no Failure yet is the engine's: memory that ran out, or an error of a library.

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
            retryable=True,
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
