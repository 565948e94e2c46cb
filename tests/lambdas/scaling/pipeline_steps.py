"""The steps of tests of `scale` with one pipeline: nudge it, queue jobs, let workers fail, open the breaker."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.state import Jobs, Workers
from lambdas.handlers.scale import handler
from tests.lambdas.cloud import SMALL, Cloud, sqs_batch
from tests.support.jobs import make_job

PLANNED = {"pipeline": SMALL}
SWEEP = {"pipeline": SMALL, "sweep": True}
NOTHING_FAILED: dict[str, Any] = {"batchItemFailures": []}
UNLOADABLE = Error(code="ModelUnavailable", message="The licence was not accepted.", remedy="Accept it.")
UNREACHABLE = Error(code="ModelUnavailable", message="The Hub is out of reach.", remedy="Wait.", retryable=True)


def nudge(*bodies: object) -> None:
    assert handler(sqs_batch(*bodies), None) == NOTHING_FAILED


def enqueue(cloud: Cloud, count: int = 1) -> None:
    """Plan jobs named `job-0` and on, and put them into the queue."""
    for number in range(count):
        job = make_job(f"job-{number}")
        Jobs(cloud.table).create(job)
        message = {"schemaVersion": 3, "taskToken": f"token-{number}", "job": job.model_dump(mode="json")}
        cloud.sqs.send_message(QueueUrl=cloud.jobs_queue, MessageBody=json.dumps(message))


def fail_worker(cloud: Cloud, workers: Workers, error: Error | None = UNLOADABLE) -> None:
    """End the last submitted worker before it has served."""
    worker = f"job-{len(cloud.batch.submitted) - 1}"
    cloud.batch.jobs[worker] |= {"status": "FAILED", "statusReason": "Essential container in task exited"}
    if error is not None:
        workers.ended(worker, error)


def let_pauses_pass(workers: Workers) -> None:
    row = workers.pipeline()
    long_ago = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    workers.set_breaker(row.model_copy(update={"retry_at": row.retry_at and long_ago}))


def open_breaker(cloud: Cloud, workers: Workers) -> None:
    for _ in range(3):
        let_pauses_pass(workers)
        nudge(PLANNED)
        fail_worker(cloud, workers)
        nudge(SWEEP)
    assert workers.pipeline().open
