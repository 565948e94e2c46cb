"""Find the failures of workers for which the jobs of a pipeline wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.messages import warn
from cosmos_batch.contract.error import Error
from cosmos_batch.state import PipelineRow, WorkerRow, Workers, outage_of


@dataclass(frozen=True)
class WorkerFailure:
    """The error with which a pipeline's last worker ended or for which it left, and when the next one is started.

    `no_capacity_since` is since when AWS has had no instance (ISO 8601, UTC), if that is the error and the time is
    known.
    """

    error: Error
    next_try: str
    no_capacity_since: str | None = None

    def __str__(self) -> str:
        since = self.no_capacity_since
        lack = "" if since is None else f"There has been no instance since {since[:10]} {since[11:16]} UTC. "
        return f"no worker can serve: {self.error.message} {self.error.remedy} {lack}{self.next_try}"


def find_worker_failure(workers: Workers) -> WorkerFailure | None:
    """Return why no worker of a pipeline serves; None where one does, or none has failed.

    A worker that is asked to leave takes no job that waits, and says nothing about the next one.
    """
    rows, breaker = workers.list(), workers.pipeline()
    coming = [row for row in rows if row.state in ("SUBMITTED", "STARTING", "READY") and not row.must_drain]
    if any(row.state == "READY" for row in coming):
        return None
    # A worker that has started has an instance, so a lack that is still stored has passed.
    lacks_capacity = breaker.lacks_capacity and all(row.state == "SUBMITTED" for row in coming)
    failed = breaker.failures > 0 or breaker.open or lacks_capacity
    error = _uncounted_failure(rows) or (breaker.reason if failed else None)
    since = breaker.no_capacity_since if lacks_capacity else None
    if error is not None:
        return WorkerFailure(error, _next_try(coming, breaker), since)
    return _server_outage(rows)


def print_worker_failures(deployment: Deployment, pipelines: Iterable[str]) -> None:
    """Print for each of these pipelines why no worker serves, if one has failed."""
    for pipeline in pipelines:
        if failure := find_worker_failure(deployment.workers(pipeline)):
            warn(f"{pipeline}: {failure}")


def _uncounted_failure(rows: list[WorkerRow]) -> Error | None:
    """Return the last worker's error, if the `scale` Lambda has not counted it in the pipeline's row yet."""
    ended = [row for row in rows if row.state == "ENDED"]
    last = max(ended, key=lambda row: row.stages.get("ended", row.last_seen), default=None)
    return None if last is None or last.counted or last.completed > 0 else last.error


def _server_outage(rows: list[WorkerRow]) -> WorkerFailure | None:
    """Return which server is away, while `scale` starts no worker because jobs wait for it; also new jobs wait then."""
    waiting = outage_of(rows)
    if waiting is None or any(row.state in ("SUBMITTED", "STARTING") for row in rows):
        return None
    if datetime.fromisoformat(waiting.until) <= datetime.now(UTC):
        return None
    remedy = "See to it that the server is there and has room."
    error = Error(code="EngineFailed", message=waiting.reason, remedy=remedy, retryable=True)
    return WorkerFailure(error, _started_at(waiting.until))


def _started_at(moment: str) -> str:
    return f"The next worker is started at {moment[11:19]} UTC."


def _next_try(coming: list[WorkerRow], breaker: PipelineRow) -> str:
    if coming:
        return "Another worker is being started."
    if breaker.retry_at is None or datetime.fromisoformat(breaker.retry_at) <= datetime.now(UTC):
        return "The next worker is started within a minute."
    return _started_at(breaker.retry_at)
