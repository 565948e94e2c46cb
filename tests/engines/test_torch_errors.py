"""Errors of torch and CUDA in a worker's own process fail its job, or end the worker if the GPU is lost."""

import os

import pytest
import torch

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.torch_errors import run_with_failures


class ProcessEnds(BaseException):
    """Stands for the end of the process."""


def end_process(status: int) -> None:
    raise ProcessEnds(status)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        torch.AcceleratorError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=["allocator", "runtime", "cublas"],
)
def test_gpu_memory_that_runs_out_fails_the_job_for_good_and_leaves_the_process(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A worker that ended would have the job tried again, alone, where it needs as much memory."""
    monkeypatch.setattr(os, "_exit", end_process)

    def work() -> None:
        raise error

    with pytest.raises(Failure, match="Memory ran out") as failed:
        run_with_failures("fps", work)
    assert not failed.value.error.retryable
