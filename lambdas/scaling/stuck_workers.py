"""Workers for which there is no instance: given up after a while, with what AWS says of its queue as the reason.

Waiting for an instance costs nothing, so `scale` submits another in its place for as long as jobs wait. Giving up is
how the reason comes to be known.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.contract.environment import PipelineCompute
from lambdas.clients import client
from lambdas.log import log
from lambdas.scaling.fleet import Worker

REASON_LIMIT = 1000  # characters of TerminateJob's reason that Batch shows


def give_up_stuck(pipeline: PipelineCompute, workers: list[Worker], after: timedelta, now: datetime) -> None:
    """Terminate the jobs that have been RUNNABLE for too long; their end, with the reason, is heard like any other.

    Batch cancels by itself what it knows to be stuck (`infra/constructs/gpu_compute.py`); this is for the rest.
    """
    stuck = [worker for worker in workers if is_stuck(worker.batch, after, now)]
    if not stuck:
        return
    states = what_aws_says(pipeline.job_queue)
    for worker in stuck:
        own = (worker.batch or {}).get("statusReason")
        reason = (
            f"RUNNABLE for more than {after.total_seconds() / 60:g} minutes: {'; '.join(filter(None, [own, *states]))}"
        )
        client("batch").terminate_job(jobId=worker.row.worker, reason=reason[:REASON_LIMIT])
        log("stuck worker given up", pipeline=pipeline.id, worker=worker.row.worker, reason=reason)


def is_stuck(job: dict[str, Any] | None, after: timedelta, now: datetime) -> bool:
    """Whether Batch has looked for an instance for too long."""
    if job is None or job["status"] != "RUNNABLE":
        return False
    return now - datetime.fromtimestamp(job["createdAt"] / 1000, UTC) > after


def what_aws_says(job_queue: str) -> list[str]:
    """The state of the queue and of its compute environments, one text for each."""
    batch = client("batch")
    (queue,) = batch.describe_job_queues(jobQueues=[job_queue])["jobQueues"]
    names = [one["computeEnvironment"] for one in queue["computeEnvironmentOrder"]]
    environments = batch.describe_compute_environments(computeEnvironments=names)["computeEnvironments"]
    return [
        *([_said("the job queue", queue)] if queue.get("statusReason") else []),
        *(_said(_types(one), one) for one in environments),
    ]


def _types(environment: dict[str, Any]) -> str:
    return "/".join(environment.get("computeResources", {}).get("instanceTypes", [])) or "a compute environment"


def _said(what: str, described: dict[str, Any]) -> str:
    return f"{what} is {described['status']} ({described.get('statusReason') or 'no reason given'})"
