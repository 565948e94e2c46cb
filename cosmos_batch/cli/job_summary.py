"""Summarize jobs for `status`, and filter them."""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.job_result import read_job_result
from cosmos_batch.cli.job_snapshot import IsRun, JobExecution, find_job, nearest_worker, waits_for_server
from cosmos_batch.cli.worker_failures import find_worker_failure
from cosmos_batch.state import FINAL, JobRow
from cosmos_batch.state.workers import WorkerState

ACTIVE = "active"  # every state of a job that has not ended
STATES = (ACTIVE, "planned", "running", "committed", "succeeded", "failed", "cancelled")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
NO_WORKER = "waiting for a worker to be started"
_STATES_OF_WORKERS: dict[WorkerState, str] = {
    "SUBMITTED": "waiting for a machine for the worker",
    "STARTING": "worker loading the model",
    "READY": "waiting in the queue",
    "DRAINING": "waiting for the next worker",
}
# The fields of a request that `status` shows beside its pipeline and input: the prompt and the options.
_QUESTION = ("prompt", "promptUri", "systemPrompt", "parameters", "generation", "requestFile", "metadata", "deadline")
# States of jobs without a row: those that are not planned yet, and those that were refused.
_STATE_OF_EXECUTION = {"RUNNING": "PLANNED", "ABORTED": "CANCELLED", "TIMED_OUT": "FAILED"}


@dataclass(frozen=True)
class JobSummary:
    """A job as `status` shows it. Times are ISO 8601, UTC."""

    id: str
    state: str
    pipeline: str
    input: str
    submitted_at: str
    stages: dict[str, str]
    steps: str = ""
    worker: str = ""
    attempts: int = 0
    document: str = ""
    waits_for: str = ""
    error: dict[str, Any] | None = None
    request: dict[str, Any] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Return why the job failed or what it waits for; empty for others."""
        if self.error is not None:
            return f"{self.error['code']}: {self.error['message']} {self.error['remedy']}"
        return self.waits_for

    def to_json(self) -> dict[str, Any]:
        """Return all fields by their names."""
        return asdict(self)


@dataclass(frozen=True)
class JobFilter:
    """The filter that a job must match to be listed. A field that is empty or None matches every job."""

    states: tuple[str, ...] = ()
    pipeline: str | None = None
    since: datetime | None = None
    text: str = ""

    def matches(self, job: JobSummary) -> bool:
        """Return whether a job is to be listed. Text is looked for in id, input, document and reason."""
        state = job.state.lower()
        is_active = job.state not in FINAL
        in_states = not self.states or state in self.states or (ACTIVE in self.states and is_active)
        where = f"{job.id}\n{job.input}\n{job.document}\n{job.reason}".casefold()
        return in_states and self.pipeline in (None, job.pipeline) and self.text.casefold() in where


def parse_since(text: str) -> datetime:
    """Read `30m`, `2h`, `7d` (so long ago), or an ISO 8601 time, UTC unless it says otherwise. Raises WrongCall."""
    ago = re.fullmatch(r"(\d+)([smhd])", text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        time = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as error:
        raise WrongCall(
            f"--since {text} is no time.", "Write how long ago, such as 30m, 2h or 7d; or a time: 2026-11-20T12:00."
        ) from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def recent_jobs(deployment: Deployment, wanted: JobFilter) -> Iterator[JobSummary]:
    """Yield the jobs that match, newest first, without runs. Each is read from the cloud as it is asked for."""
    paginator = deployment.clients("stepfunctions").get_paginator("list_executions")
    failures: dict[str, str] = {}
    worker_states: dict[str, str] = {}
    for page in paginator.paginate(stateMachineArn=deployment.state_machine_arn):
        for execution in page["executions"]:
            if wanted.since is not None and execution["startDate"] < wanted.since:
                return
            try:
                job = _with_worker_state(deployment, summarize(deployment, execution["name"], failures), worker_states)
            except IsRun:
                continue
            if wanted.matches(job):
                yield job


def summarize(deployment: Deployment, job_id: str, failures: dict[str, str] | None = None) -> JobSummary:
    """Return the summary of a job. Raises CliError where there is no job with this id.

    `failures` keeps, between calls, why the workers of each pipeline cannot serve.
    """
    execution, row = find_job(deployment, job_id)
    submitted_at = execution.started_at.isoformat(timespec="seconds")
    error = _error(execution, row)
    state = _STATE_OF_EXECUTION.get(execution.status, execution.status)
    request = {name: execution.request[name] for name in _QUESTION if execution.request.get(name)}
    if row is None:
        pipeline, file = (str(execution.request.get(name) or "") for name in ("pipeline", "input"))
        return JobSummary(job_id, state, pipeline, file, submitted_at, {}, error=error, request=request)
    attempt = row.open_attempt
    return JobSummary(
        id=job_id,
        # A row is closed a moment after its execution has ended.
        state=row.state if row.state in FINAL or not execution.over else state,
        pipeline=row.pipeline,
        input=row.input or "",
        submitted_at=submitted_at,
        stages=dict(sorted(row.stages.items(), key=lambda stage: stage[1])),
        steps=f"{attempt.steps_done}/{attempt.steps}" if attempt is not None and attempt.steps else "",
        worker=row.worker or "",
        attempts=row.attempts,
        document=row.document if row.state == "SUCCEEDED" else "",
        waits_for=waits_for_server(row) or _worker_failure(deployment, row, {} if failures is None else failures),
        error=error,
        request=request,
    )


def _error(execution: JobExecution, row: JobRow | None) -> dict[str, Any] | None:
    """Return the error of a job that has ended with one."""
    if not execution.over or execution.status == "SUCCEEDED":
        return None
    error = read_job_result(execution, row).error
    return None if error is None else error.model_dump(by_alias=True)


def _with_worker_state(deployment: Deployment, job: JobSummary, states: dict[str, str]) -> JobSummary:
    """Return a job with what it waits for: where no reason is known, how far the worker is that is nearest to it.

    `states` keeps, between calls, how far the nearest worker of each pipeline is.
    """
    if job.state != "PLANNED" or job.waits_for or not job.stages:
        return job
    if job.pipeline not in states:
        worker = nearest_worker(deployment.workers(job.pipeline))
        states[job.pipeline] = NO_WORKER if worker is None else _STATES_OF_WORKERS[worker.state]
    return replace(job, waits_for=states[job.pipeline])


def _worker_failure(deployment: Deployment, row: JobRow, failures: dict[str, str]) -> str:
    """Return why no worker can serve a job that waits for one; empty where one can, or none has failed."""
    if row.state != "PLANNED":
        return ""
    if row.pipeline not in failures:
        failures[row.pipeline] = str(find_worker_failure(deployment.workers(row.pipeline)) or "")
    return failures[row.pipeline]
