"""Benchmark of the worker itself: items per second, and many answers at once, with an engine without a model.

All parts of the worker are real: receiving, leases, the state table's conditions, fetching and probing the file, the
document, commit, copy, callback, delete. Only AWS is a stand-in.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.app.instant_aws import InstantAws
from benchmarks.app.new_job import new_job
from benchmarks.app.resident_worker import drained, serving
from benchmarks.measurement import Measurement
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.result import Answer
from cosmos_batch.demo.media import sample_image
from tests.support.scripted_engine import ScriptedEngine

ITEMS = 1000
LIMIT_PER_SECOND = 50
AT_ONCE, SECONDS_PER_CALL, ROUNDS = 250, 0.02, 5


class _AllAtOnce(ScriptedEngine):
    """An engine that answers no job before it has all of them."""

    concurrency = AT_ONCE
    answered_at = 0.0  # time.monotonic

    def __init__(self) -> None:
        super().__init__()
        self._jobs, self._all = 0, asyncio.Event()

    async def run(self, job: Job, workdir: Path) -> Answer:
        self._jobs += 1
        if self._jobs == AT_ONCE:
            self._all.set()
        await self._all.wait()
        self.answered_at = self.answered_at or time.monotonic()
        return await super().run(job, workdir)


def measure() -> list[Measurement]:
    """Measure one worker with 20 places on `ITEMS` items, and one whose engine answers all its items at once."""
    began, ended = _served(ScriptedEngine(), ITEMS, 0.0)
    return [_of_items(ended - began), _of_the_end([_seconds_after_the_answers() for _ in range(ROUNDS)])]


def _seconds_after_the_answers() -> float:
    """Return how long after the engine has answered all items at once the last of them is done."""
    engine = _AllAtOnce()
    _, ended = _served(engine, AT_ONCE, SECONDS_PER_CALL)
    return ended - engine.answered_at


def _of_items(seconds: float) -> Measurement:
    return Measurement(
        name="one worker, engine and AWS answer at once",
        value=f"{ITEMS / seconds:.0f} items/s ({ITEMS} items in {seconds:.1f} s)",
        limit=f"at least {LIMIT_PER_SECOND} items/s",
        met=ITEMS / seconds >= LIMIT_PER_SECOND,
        raw={"items": ITEMS, "seconds": seconds},
    )


def _of_the_end(seconds: list[float]) -> Measurement:
    return Measurement(
        name=f"{AT_ONCE} answers at once, a call to AWS takes {1000 * SECONDS_PER_CALL:.0f} ms",
        value=f"all are reported after {statistics.median(seconds):.2f} s (median of {len(seconds)})",
        limit="none",
        met=True,
        raw={"items": AT_ONCE, "seconds": seconds},
    )


def _served(engine: ScriptedEngine, items: int, seconds_per_call: float) -> tuple[float, float]:
    """Serve a number of items. Return when that began, and when the last was done, by `time.monotonic`."""
    with tempfile.TemporaryDirectory() as folder:
        picture = sample_image(Path(folder) / "picture.png").read_bytes()
        jobs = [_job(number, len(picture)) for number in range(items)]
        (Path(folder) / "config.json").write_text("{}")
        aws = InstantAws(jobs, {"p.png": picture}, seconds_per_call)
        return asyncio.run(_drain(engine, aws, Path(folder), items))


async def _drain(engine: ScriptedEngine, aws: InstantAws, model: Path, items: int) -> tuple[float, float]:
    async with serving(engine, model, aws):
        began = time.monotonic()
        await drained(aws, items)
        return began, time.monotonic()


def _job(number: int, size: int) -> Job:
    return new_job(
        f"item-{number}",
        "cosmos-reason2-2b",
        OutputKey(bucket="assets-bucket", key=f"items/{number}.json"),
        input=InputFile(bucket="assets-bucket", key="p.png", version_id="v", etag='""', size=size),
        prompt="What?",
        system_prompt="You are a helpful assistant.",
    )
