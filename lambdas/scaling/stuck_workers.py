"""End workers for which Batch has found no instance for too long, with AWS's state of their queue as the reason.

A job that waits for an instance costs nothing, and `scale` submits another one for as long as jobs wait. The worker is
ended so that its reason reaches the breaker's row, and thereby people.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.contract.environment import DeployedCompute
from lambdas.clients import client
from lambdas.log import log
from lambdas.scaling.fleet import FleetWorker

REASON_LIMIT = 1000  # characters of TerminateJob's reason that Batch shows


def end_stuck_workers(pipeline: DeployedCompute, workers: list[FleetWorker], after: timedelta, now: datetime) -> None:
    """Terminate the jobs that have been RUNNABLE for longer than `after`; their ends are handled like all others.

    Batch cancels some stuck jobs by itself (`infra/constructs/gpu_compute.py` configures it); these are the rest.
    """
    stuck = [worker for worker in workers if is_stuck(worker.batch, after, now)]
    if not stuck:
        return
    states = states_of_queue(pipeline.job_queue)
    for worker in stuck:
        reasons = "; ".join(filter(None, [(worker.batch or {}).get("statusReason"), *states]))
        reason = f"RUNNABLE for more than {after.total_seconds() / 60:g} minutes: {reasons}"
        client("batch").terminate_job(jobId=worker.row.worker, reason=reason[:REASON_LIMIT])
        log("stuck worker given up", pipeline=pipeline.id, worker=worker.row.worker, reason=reason)


def is_stuck(job: dict[str, Any] | None, after: timedelta, now: datetime) -> bool:
    """Return whether a job of Batch has waited for an instance for longer than `after`."""
    if job is None or job["status"] != "RUNNABLE":
        return False
    return now - datetime.fromtimestamp(job["createdAt"] / 1000, UTC) > after


def states_of_queue(job_queue: str) -> list[str]:
    """Return the state of each compute environment of a job queue in words, and the queue's own if AWS explains it."""
    batch = client("batch")
    (queue,) = batch.describe_job_queues(jobQueues=[job_queue])["jobQueues"]
    names = [order["computeEnvironment"] for order in queue["computeEnvironmentOrder"]]
    environments = batch.describe_compute_environments(computeEnvironments=names)["computeEnvironments"]
    return [
        *([_state("the job queue", queue)] if queue.get("statusReason") else []),
        *(_state(_instance_types(environment), environment) for environment in environments),
    ]


def _instance_types(environment: dict[str, Any]) -> str:
    return "/".join(environment.get("computeResources", {}).get("instanceTypes", [])) or "a compute environment"


def _state(name: str, described: dict[str, Any]) -> str:
    return f"{name} is {described['status']} ({described.get('statusReason') or 'no reason given'})"
