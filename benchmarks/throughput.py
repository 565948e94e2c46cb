"""Items per second of one worker whose engine answers at once: the worker itself must not be the limit.

The queue is filled first, then one worker drains it. On one machine the local cloud's server takes most of the two
cores, so the rate on the clock is the server's. What the worker can do is told by the processor time that its own
processes spend on an item.
"""

import os
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.measurement import Measurement
from cosmos_batch.contract import Job, JobMessage, Parameters
from cosmos_batch.contract.job import InputFile, OutputKey
from cosmos_batch.demo.media import sample_image
from tests.e2e.harness import TWO_B, App, configuration, running_app, wait_for

ITEMS = 400
LIMIT_PER_SECOND = 50


def measure() -> list[Measurement]:
    """One run: `ITEMS` items, one worker, an engine with 20 places."""
    with tempfile.TemporaryDirectory() as folder:
        config = configuration(Path(folder), worker={"idleSeconds": 300, "visibilityTimeoutSeconds": 120})
        picture = sample_image(Path(folder) / "picture.png").read_bytes()
        with running_app(Path(folder), config) as app:
            worker = _resident_worker(app, picture)
            queue_url = app.queue_url(TWO_B)
            version = app.upload("items/p.png", picture)
            jobs = [_job(app, n, version, len(picture)) for n in range(ITEMS)]
            for job in jobs:
                app.jobs.create(job)
            before, began = _processor_seconds(worker), time.monotonic()
            for job in jobs:
                body = JobMessage(schema_version=1, task_token="nobody", job=job).model_dump_json()  # noqa: S106
                app.client("sqs").send_message(QueueUrl=queue_url, MessageBody=body)
            wait_for(lambda: app.jobs.get(jobs[-1].job_id).state == "SUCCEEDED", 300, "not drained")  # type: ignore[union-attr]
            wait_for(lambda: app.queue_is_empty(TWO_B), 300, "not drained")
            wall, spent = time.monotonic() - began, _processor_seconds(worker) - before
    per_item = spent / ITEMS
    raw = {"items": ITEMS, "wall_seconds": wall, "worker_processor_seconds": spent}
    return [
        Measurement(
            name="one worker, instant engine: what its processor time allows",
            value=f"{1 / per_item:.0f} items/s on one core ({per_item * 1000:.1f} ms of processor time an item)",
            limit=f"at least {LIMIT_PER_SECOND} items/s",
            met=1 / per_item >= LIMIT_PER_SECOND,
            raw=raw,
        ),
        Measurement(
            name="one worker, instant engine: on the local cloud's clock",
            value=f"{ITEMS / wall:.0f} items/s (the local cloud's server is the limit)",
            limit="none",
            met=True,
            raw=raw,
        ),
    ]


def _resident_worker(app: App, picture: bytes) -> str:
    app.upload("first/p.png", picture, prompt="x")
    app.execution_of("first/p.png", 60)
    [worker] = app.live_workers()
    return worker


def _job(app: App, number: int, version: str, size: int) -> Job:
    now = datetime.now(UTC)
    return Job(
        job_id=f"item-{number}",
        execution_arn=f"item-{number}",
        pipeline=TWO_B,
        input=InputFile(bucket=app.assets, key="items/p.png", version_id=version, etag='""', size=size),
        prompt="What?",
        prompt_uri=None,
        system_prompt="You are a helpful assistant.",
        parameters=Parameters(),
        document=OutputKey(bucket=app.assets, key=f"items/{number}.json"),
        timestamp=now.strftime("%Y%m%d-%H%M%S"),
        created_at=now,
        deadline=now + timedelta(hours=1),
        invalidate_model=False,
    )


def _processor_seconds(worker: str) -> float:
    """User and system time of every process of a worker so far."""
    ticks = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if f"AWS_BATCH_JOB_ID={worker}".encode() in (process / "environ").read_bytes():
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")
