"""What can be seen of a job while it is under way: its stages, and what it waits for."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.worker_failures import WorkerFailure, find_worker_failure
from cosmos_batch.state import FINAL, JobRow, WorkerRow

STAGES = (
    "uploaded",
    "planned",
    "queued",
    "worker started",
    "model loaded",
    "inferred",
    "written",
    "called back",
)

# Stages as the state table calls them.
_OF_JOB = {"planned": "planned", "inferred": "inferred", "written": "written", "called back": "calledBack"}
_OF_WORKER = {"worker started": "started", "model loaded": "modelLoaded"}


@dataclass(frozen=True)
class JobExecution:
    """The execution of a job, as Step Functions tells it."""

    status: str
    started_at: datetime
    queued_at: datetime | None
    request: dict[str, Any]
    output: str | None
    error: str | None
    cause: str | None

    @property
    def over(self) -> bool:
        """Whether it has ended, however."""
        return self.status not in ("RUNNING", "PENDING_REDRIVE")


@dataclass(frozen=True)
class JobSnapshot:
    """A job at one moment. What is None does not exist yet."""

    execution: JobExecution | None = None
    row: JobRow | None = None
    worker: WorkerRow | None = None
    trouble: WorkerFailure | None = None
    batch: dict[str, Any] = field(default_factory=dict)
    last_line: str | None = None

    def stages(self) -> dict[str, datetime]:
        """When each stage was reached; those of the worker may lie before the job."""
        found = {}
        if self.execution and self.execution.queued_at:
            found["queued"] = self.execution.queued_at
        for stages, row in ((_OF_JOB, self.row), (_OF_WORKER, self.worker)):
            times = row.stages if row else {}
            found |= {name: datetime.fromisoformat(times[key]) for name, key in stages.items() if key in times}
        return found

    def waits_for(self) -> str:
        """What is going on, in a person's words."""
        if self.execution is None:
            return "waiting for its execution to be started"
        if self.row is None:
            return "checking the request"
        if self.row.state == "RUNNING":
            return _steps_of(self.row) or "the model is answering"
        if waiting := waits_for_server(self.row):
            return waiting
        if self.row.state == "COMMITTED" or self.row.state in FINAL:
            return "writing the result, telling who asked"
        if self.worker is None or self.worker.state == "ENDED":
            return "waiting for a worker to be started" if self.trouble is None else str(self.trouble)
        return self._worker_is_doing(self.worker)

    def _worker_is_doing(self, worker: WorkerRow) -> str:
        if worker.state == "SUBMITTED":
            reason = self.batch.get("statusReason")
            return f"Batch job {self.batch.get('status', 'SUBMITTED')}" + (f": {reason}" if reason else "")
        if worker.state == "STARTING":
            return f"loading the model: {self.last_line}" if self.last_line else "loading the model"
        return "waiting in the queue"


def waits_for_server(row: JobRow) -> str | None:
    """Of a job whose engine asks a server that was busy or away: why it waits, and how long."""
    if row.state != "PLANNED" or row.waiting is None:
        return None
    return f"{row.waiting.reason} It is asked again at {row.waiting.until[11:19]} UTC."


def _steps_of(row: JobRow) -> str | None:
    """Of a running job whose engine counts."""
    attempt = row.open_attempt
    if attempt is None or attempt.steps is None:
        return None
    if attempt.steps_done == attempt.steps:
        return f"all {attempt.steps} steps are done: decoding, writing"
    return f"step {attempt.steps_done} of {attempt.steps}"


class JobObserver:
    """Looks at one job, again and again. What cannot change any more is not asked for twice."""

    def __init__(self, deployment: Deployment, job_id: str) -> None:
        self._deployment = deployment
        self._job_id = job_id
        self._queued_at: datetime | None = None

    def look(self) -> JobSnapshot:
        """The job as it is now."""
        execution = self._execution()
        row = self._deployment.jobs.get(self._job_id) if execution else None
        worker = self._worker(row) if row else None
        no_worker = worker is None or worker.state == "ENDED"
        trouble = find_worker_failure(self._deployment.workers(row.pipeline)) if row and no_worker else None
        batch = self._batch_job(worker) if worker and worker.state in ("SUBMITTED", "STARTING") else {}
        return JobSnapshot(execution, row, worker, trouble, batch, self._last_line(batch))

    def _execution(self) -> JobExecution | None:
        arn = self._deployment.execution_arn(self._job_id)
        execution = read_execution(self._deployment, arn)
        if execution is None:
            return None
        self._queued_at = self._queued_at or _task_submitted(self._deployment, arn)
        return JobExecution(**{**vars(execution), "queued_at": self._queued_at})

    def _worker(self, row: JobRow) -> WorkerRow | None:
        """The job's worker; before it has one, the worker that is closest to taking it."""
        workers = self._deployment.workers(row.pipeline)
        if row.worker:
            return workers.get(row.worker)
        alive = [worker for worker in workers.list() if worker.state != "ENDED"]
        return max(alive, key=lambda worker: (len(worker.stages), worker.last_seen), default=None)

    def _batch_job(self, worker: WorkerRow) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = self._deployment.clients("batch").describe_jobs(jobs=[worker.worker])["jobs"]
        return jobs[0] if jobs else {}

    def _last_line(self, batch: dict[str, Any]) -> str | None:
        """What a worker that loads said last: a download's progress, for example."""
        container = batch.get("container", {})
        group = container.get("logConfiguration", {}).get("options", {}).get("awslogs-group", "/aws/batch/job")
        stream = container.get("logStreamName")
        if batch.get("status") != "RUNNING" or not stream:
            return None
        logs = self._deployment.clients("logs")
        try:
            answer = logs.get_log_events(logGroupName=group, logStreamName=stream, limit=1, startFromHead=False)
        except logs.exceptions.ResourceNotFoundException:
            return None
        return answer["events"][0]["message"] if answer["events"] else None


def read_execution(deployment: Deployment, arn: str) -> JobExecution | None:
    """An execution, or None where it was not started (yet)."""
    stepfunctions = deployment.clients("stepfunctions")
    try:
        said = stepfunctions.describe_execution(executionArn=arn)
    except stepfunctions.exceptions.ExecutionDoesNotExist:
        return None
    return JobExecution(
        status=said["status"],
        started_at=said["startDate"].astimezone(UTC),
        queued_at=None,
        request=json.loads(said.get("input", "{}")),
        output=said.get("output"),
        error=said.get("error"),
        cause=said.get("cause"),
    )


def _task_submitted(deployment: Deployment, arn: str) -> datetime | None:
    return next((time for kind, time in _history(deployment, arn) if kind == "TaskSubmitted"), None)


def _history(deployment: Deployment, arn: str) -> Iterator[tuple[str, datetime]]:
    pages = deployment.clients("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    for page in pages:
        for event in page["events"]:
            yield event["type"], event["timestamp"].astimezone(UTC)
