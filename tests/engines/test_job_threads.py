"""The threads in which media are decoded: small files do not wait behind large ones."""

import asyncio
import os
import threading

import pytest

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_threads import LARGE_BYTES, MediaThreads
from tests.engines.conftest import make_job


def job_of(size: int, *more: int) -> Job:
    job = make_job("clip.mp4")
    first, *others = (job.inputs[0].model_copy(update={"size": one}) for one in (size, *more))
    return job.model_copy(update={"input": first, "more_inputs": others})


def test_small_files_do_not_wait_for_large_files() -> None:
    preparing, ended = MediaThreads(), threading.Event()

    async def scene() -> None:
        jobs = [job_of(LARGE_BYTES + 1), job_of(LARGE_BYTES, 1)] * 64
        large = [asyncio.ensure_future(preparing.run(job, ended.wait, 60)) for job in jobs]
        try:
            async with asyncio.timeout(30):
                assert await preparing.run(job_of(LARGE_BYTES), str, "small") == "small"
            assert not any(one.done() for one in large)
        finally:
            ended.set()
        await asyncio.gather(*large)

    asyncio.run(scene())
    preparing.close()


@pytest.mark.parametrize(("cores", "small", "large"), [(1, 1, 1), (2, 1, 1), (16, 8, 4)])
def test_half_of_the_cores_decode(monkeypatch: pytest.MonkeyPatch, cores: int, small: int, large: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    preparing = MediaThreads()
    assert (MediaThreads(8)._small._max_workers, MediaThreads(9)._small._max_workers) == (8, 9)
    assert (preparing._small._max_workers, preparing._large._max_workers) == (small, large)
