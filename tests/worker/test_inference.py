"""Jobs share the engine: up to its limit or one alone, and only while it works on them."""

import asyncio
import time
from pathlib import Path

import pytest

from cosmos_batch.contract.job import Job
from cosmos_batch.worker import runner
from cosmos_batch.worker.inference import JobsInHand
from tests.worker.conftest import WorkerFixture
from tests.worker.engines import PATIENCE, Counting, until


class HeldUp:
    """An upsampler that waits with the prompts of the first `count` jobs until `let` is set."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.let = asyncio.Event()

    async def upsample(self, job: Job, workdir: Path) -> Job:
        self.left -= 1
        if self.left >= 0:
            await self.let.wait()
        return job


def engine_of(places: int) -> Counting:
    engine = Counting()
    engine.concurrency = places
    return engine


def test_jobs_whose_prompts_are_being_written_hold_no_place_in_the_engine(bench: WorkerFixture) -> None:
    """Two jobs wait for their prompts while the engine has two places. A third is received and answered before them."""
    for name in ("one", "two", "three"):
        bench.send(bench.job(name))
    engine = engine_of(2)
    worker, held_up = bench.worker(engine=engine), HeldUp(2)
    worker.runner.upsampler = held_up  # type: ignore[assignment]

    async def serve() -> None:
        serving = asyncio.ensure_future(worker.serve())
        await until(lambda: len(bench.stepfunctions.calls_of("success")) == 1)
        held_up.let.set()
        await serving

    asyncio.run(serve())
    assert len(bench.stepfunctions.calls_of("success")) == 3 and engine.most <= 2
    assert [bench.attempts(name) for name in ("one", "two", "three")] == [1, 1, 1]


def test_outputs_are_checked_and_stored_without_a_place_in_the_engine(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third job is received and answered while the outputs of the first two are being checked."""
    for name in ("one", "two", "three"):
        bench.send(bench.job(name))
    collect, looked_at = runner.collect_outputs, []

    def held_up(*arguments: object) -> object:
        looked_at.append(len(looked_at))
        while looked_at[-1] < 2:  # until the third comes here
            time.sleep(0.01)
        return collect(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "collect_outputs", held_up)
    engine = engine_of(2)
    bench.worker(engine=engine).run()
    assert len(bench.stepfunctions.calls_of("success")) == 3 and engine.most <= 2


@pytest.mark.parametrize("places", [1, 2])
def test_no_more_jobs_are_in_the_engine_than_its_concurrency(bench: WorkerFixture, places: int) -> None:
    for number in range(6):
        bench.send(bench.job(f"job-{number}"))
    engine = engine_of(places)
    bench.worker(engine=engine).run()
    assert len(bench.stepfunctions.calls_of("success")) == 6 and engine.most <= places


def test_an_exclusive_holder_waits_for_holders_and_goes_before_later_holders() -> None:
    order: list[str] = []

    async def use(jobs: JobsInHand, name: str, alone: bool, seconds: float) -> None:
        async with jobs.enter(alone):
            order.append(f"+{name}")
            await asyncio.sleep(seconds)
            order.append(f"-{name}")

    async def scene() -> None:
        jobs = JobsInHand(2)
        tasks = [
            asyncio.create_task(use(jobs, "a", False, 0.05)),
            asyncio.create_task(use(jobs, "b", False, 0.02)),
        ]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(use(jobs, "solo", True, 0.02)))
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(use(jobs, "c", False, 0)))
        await asyncio.gather(*tasks)

    asyncio.run(scene())
    assert order == ["+a", "+b", "-b", "-a", "+solo", "-solo", "+c", "-c"]


def test_a_cancelled_wait_for_an_exclusive_place_blocks_nobody() -> None:
    async def scene() -> bool:
        jobs = JobsInHand(1)
        async with jobs.enter(False):
            waiting = asyncio.create_task(jobs.enter(True).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(PATIENCE), jobs.enter(False):
            return True

    assert asyncio.run(scene())
