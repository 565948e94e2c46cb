"""Benchmark of the worker itself: items per second with an engine that answers at once.

All parts of the worker are real: receiving, leases, the state table's conditions, fetching and probing the file, the
document, commit, copy, callback, delete. Only AWS is a stand-in that responds at once.
"""

import asyncio
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.app.instant_aws import InstantAws
from benchmarks.app.resident_worker import drained, serving
from benchmarks.measurement import Measurement
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.demo.media import sample_image
from tests.support.scripted_engine import ScriptedEngine

ITEMS = 1000
LIMIT_PER_SECOND = 50


def measure() -> Measurement:
    """Measure one worker with 20 slots on `ITEMS` items."""
    with tempfile.TemporaryDirectory() as folder:
        picture = sample_image(Path(folder) / "picture.png").read_bytes()
        aws = InstantAws([_job(number, len(picture)) for number in range(ITEMS)], {"p.png": picture})
        seconds = asyncio.run(_drain(aws, folder))
    return Measurement(
        name="one worker, engine and AWS answer at once",
        value=f"{ITEMS / seconds:.0f} items/s ({ITEMS} items in {seconds:.1f} s)",
        limit=f"at least {LIMIT_PER_SECOND} items/s",
        met=ITEMS / seconds >= LIMIT_PER_SECOND,
        raw={"items": ITEMS, "seconds": seconds},
    )


async def _drain(aws: InstantAws, folder: str) -> float:
    (Path(folder) / "config.json").write_text("{}")
    async with serving(ScriptedEngine(), Path(folder), aws):
        began = time.monotonic()
        await drained(aws, ITEMS)
        return time.monotonic() - began


def _job(number: int, size: int) -> Job:
    now = datetime.now(UTC)
    return Job(
        job_id=f"item-{number}",
        execution_arn=f"item-{number}",
        pipeline="cosmos-reason2-2b",
        input=InputFile(bucket="assets-bucket", key="p.png", version_id="v", etag='""', size=size),
        prompt="What?",
        prompt_uri=None,
        system_prompt="You are a helpful assistant.",
        parameters=Parameters(),
        document=OutputKey(bucket="assets-bucket", key=f"items/{number}.json"),
        timestamp=now.strftime("%Y%m%d-%H%M%S"),
        created_at=now,
        deadline=now + timedelta(hours=1),
        invalidate_model=False,
    )
