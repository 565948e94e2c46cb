"""How many jobs a worker receives while others are prepared: their files are fetched, or their prompts are written."""

import asyncio
from pathlib import Path

import pytest

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer
from cosmos_batch.worker.job_attempt import JobAttempt
from cosmos_batch.worker.loop import PREPARED_AT_ONCE, WorkerLoop
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import InProcessWorker, WorkerFixture
from tests.worker.engines import until

JOBS = 2 * PREPARED_AT_ONCE + 2


class Preparation:
    """An upsampler that holds jobs until `let` is set, and counts those in it now and at most."""

    def __init__(self) -> None:
        self.inside = self.most = 0
        self.let = asyncio.Event()

    async def upsample(self, job: Job, workdir: Path) -> Job:
        self.inside += 1
        self.most = max(self.most, self.inside)
        await self.let.wait()
        self.inside -= 1
        return job


class Holding(ScriptedEngine):
    """An engine with room for all jobs that answers none before it has all of them."""

    concurrency = JOBS
    begun = 0

    async def run(self, job: Job, workdir: Path) -> Answer:
        self.begun += 1
        await until(lambda: self.begun == JOBS)
        return await super().run(job, workdir)


def worker_with(bench: WorkerFixture, preparation: Preparation) -> InProcessWorker:
    for number in range(JOBS):
        bench.send(bench.job(f"job-{number}"))
    worker = bench.worker(engine=Holding())
    worker.runner.upsampler = preparation  # type: ignore[assignment]
    return worker


def test_few_jobs_are_prepared_at_a_time_and_others_follow_as_soon_as_one_is_in_the_engine(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No job ends before all are in the engine, so that only those that enter it can make the worker receive more."""
    wait, waiting = WorkerLoop._wait_for_change, asyncio.Event()

    async def wait_without_limit(worker: WorkerLoop, _: float) -> None:
        waiting.set()
        await wait(worker)

    monkeypatch.setattr(WorkerLoop, "_wait_for_change", wait_without_limit)
    monkeypatch.setattr(JobAttempt, "is_slow_to_prepare", lambda *_: False)
    preparation = Preparation()
    worker = worker_with(bench, preparation)

    async def scene() -> None:
        serving = asyncio.ensure_future(worker.serve())
        await until(lambda: waiting.is_set() and preparation.inside == PREPARED_AT_ONCE)
        assert bench.waiting() == (JOBS - PREPARED_AT_ONCE, PREPARED_AT_ONCE)
        preparation.let.set()
        await until(lambda: len(bench.stepfunctions.calls_of("success")) == JOBS)
        worker.loop.stop()
        await serving

    asyncio.run(scene())
    assert preparation.most == PREPARED_AT_ONCE


def test_jobs_whose_preparation_takes_long_keep_no_others_out(bench: WorkerFixture) -> None:
    """All jobs are being prepared in the end, though none has left the preparation."""
    preparation = Preparation()
    worker = worker_with(bench, preparation)

    async def scene() -> None:
        serving = asyncio.ensure_future(worker.serve())
        await until(lambda: preparation.inside == JOBS)
        preparation.let.set()
        await serving

    asyncio.run(scene())
    assert len(bench.stepfunctions.calls_of("success")) == JOBS
