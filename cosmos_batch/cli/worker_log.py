"""The lines that a worker has logged."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import log_stream

_SHOWN_APART = ("time", "level", "logger", "message", "error", "code", "frames", "cause")


def worker_events(
    deployment: Deployment, worker: str, begin: datetime | None = None, end: datetime | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the log events of a worker, which is a Batch job, in pages: all, or those between two times.

    Raises CliError where its log is not there any more.
    """
    jobs: list[dict[str, Any]] = deployment.clients("batch").describe_jobs(jobs=[worker])["jobs"]
    stream = log_stream(deployment, jobs[0]) if jobs else None
    if stream is None:
        raise CliError(
            f"The log of worker {worker} is not to be found: Batch forgets a job a week after its end.",
            "Look for its stream in CloudWatch Logs.",
        )
    logs = deployment.clients("logs")
    times = {"startTime": begin, "endTime": end}
    between = {name: round(time.timestamp() * 1000) for name, time in times.items() if time is not None}
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(**stream, **between, startFromHead=True, **token)
        yield from page["events"]
        following = {"nextToken": page["nextForwardToken"]}
        # At the end of a log CloudWatch returns the same token. A page without events may have others after it.
        if following == token:
            return
        token = following


def readable_lines(event: Mapping[str, Any]) -> Iterator[str]:
    """Yield a log event as a person reads it: time, level and message, then an exception with its cause.

    A line that is not JSON, such as one of an engine's server, is yielded as it is, after its time.
    """
    try:
        fields = json.loads(event["message"])
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        fields = {"message": event["message"]}
    moment = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
    more = "".join(f"  {name}={_as_text(value)}" for name, value in fields.items() if name not in _SHOWN_APART)
    yield f"{moment:%Y-%m-%d %H:%M:%S}  {fields.get('level') or '':7}  {fields.get('message', '')}{more}"
    yield from _error_lines(fields, "")


def _error_lines(fields: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield an exception's type, its code and where it was raised, then the same of its cause."""
    described = " ".join(str(fields[name]) for name in ("error", "code") if fields.get(name))
    if described:
        yield f"    {prefix}{described}"
    for frame in fields.get("frames") or ():
        yield f"      {frame}"
    if isinstance(fields.get("cause"), dict):
        yield from _error_lines(fields["cause"], "caused by ")


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
