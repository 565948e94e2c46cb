"""The lines that a worker has logged."""

from collections.abc import Iterator
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import log_stream


def worker_events(deployment: Deployment, worker: str) -> Iterator[dict[str, Any]]:
    """Yield the log events of a worker, which is a Batch job. Raises CliError where its log is not there any more."""
    jobs: list[dict[str, Any]] = deployment.clients("batch").describe_jobs(jobs=[worker])["jobs"]
    stream = log_stream(deployment, jobs[0]) if jobs else None
    if stream is None:
        raise CliError(
            f"The log of worker {worker} is not to be found: Batch forgets a job a week after its end.",
            "Look for its stream in CloudWatch Logs.",
        )
    logs = deployment.clients("logs")
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(**stream, startFromHead=True, **token)
        yield from page["events"]
        following = {"nextToken": page["nextForwardToken"]}
        if following == token or not page["events"]:
            return
        token = following
