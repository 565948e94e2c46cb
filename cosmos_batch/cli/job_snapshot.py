"""Observe a job: the stages that it has reached, and what it waits for."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.input_checks import is_generator
from cosmos_batch.cli.worker_failures import WorkerFailure, find_worker_failure
from cosmos_batch.state import FINAL, JobRow, Watcher, WorkerRow, Workers

POLL_SECONDS = 0.3
_OTHER_RUNS = 5  # the most runs to name that took over an item's answer
_LINES = 20  # the number of a log's last lines that are searched for one that is no warning
_WARNING = re.compile(r"^[WEF]\d{4} |warning", re.IGNORECASE)  # PyTorch begins such lines with W, month and day

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

# The names of stages in the rows of jobs and of workers.
_JOB_STAGES = {"planned": "planned", "inferred": "inferred", "written": "written", "called back": "calledBack"}
_WORKER_STAGES = {"worker started": "started", "model loaded": "modelLoaded"}


@dataclass(frozen=True)
class JobExecution:
    """The Step Functions execution of a job."""

    status: str
    started_at: datetime
    queued_at: datetime | None
    request: dict[str, Any]
    output: str | None
    error: str | None
    cause: str | None

    @property
    def over(self) -> bool:
        """Return whether the execution has ended, in whatever way."""
        return self.status not in ("RUNNING", "PENDING_REDRIVE")


@dataclass(frozen=True)
class JobSnapshot:
    """A snapshot holds what is known of a job at one moment. Fields are None until they exist."""

    execution: JobExecution | None = None
    row: JobRow | None = None
    worker: WorkerRow | None = None
    failure: WorkerFailure | None = None
    batch: dict[str, Any] = field(default_factory=dict)
    last_line: str | None = None

    def stages(self) -> dict[str, datetime]:
        """Return when each stage was reached. A resident worker's stages lie before the job."""
        reached = {}
        if self.execution and self.execution.queued_at:
            reached["queued"] = self.execution.queued_at
        for stages, row in ((_JOB_STAGES, self.row), (_WORKER_STAGES, self.worker)):
            times = row.stages if row else {}
            reached |= {name: datetime.fromisoformat(times[key]) for name, key in stages.items() if key in times}
        return reached

    def waits_for(self) -> str:
        """Return a phrase that says what the job waits for, such as "the model is answering"."""
        if self.execution is None:
            return "waiting for its execution to be started"
        if self.row is None:
            return "checking the request"
        if self.row.state == "RUNNING":
            return _steps(self.row) or ("the model is generating" if self._generates else "the model is answering")
        if waiting := waits_for_server(self.row):
            return waiting
        if self.row.state == "COMMITTED" or self.row.state in FINAL:
            return "writing the result, calling back"
        if self.worker is None or self.worker.state == "ENDED":
            return "waiting for a worker to be started" if self.failure is None else str(self.failure)
        return self._worker_is_doing(self.worker)

    @property
    def _generates(self) -> bool:
        return self.row is not None and is_generator(self.row.pipeline)

    def _worker_is_doing(self, worker: WorkerRow) -> str:
        if worker.state == "SUBMITTED":
            reason = self.batch.get("statusReason")
            return f"Batch job {self.batch.get('status', 'SUBMITTED')}" + (f": {reason}" if reason else "")
        if worker.state == "STARTING":
            return f"loading the model: {self.last_line}" if self.last_line else "loading the model"
        return "waiting in the queue"


def nearest_worker(workers: Workers) -> WorkerRow | None:
    """Return the worker that is closest to taking a job of its pipeline; None where none is alive."""
    alive = [worker for worker in workers.list() if worker.state != "ENDED"]
    return max(alive, key=lambda worker: (len(worker.stages), worker.last_seen), default=None)


def waits_for_server(row: JobRow) -> str | None:
    """Return why and until when a job waits whose engine asks a server that was busy or away; None for other jobs."""
    if row.state != "PLANNED" or row.waiting is None:
        return None
    return f"{row.waiting.reason} It is asked again at {row.waiting.until[11:19]} UTC."


def _steps(row: JobRow) -> str | None:
    """Return how many steps of a running job are done; None where its engine does not count them."""
    attempt = row.open_attempt
    if attempt is None or attempt.steps is None:
        return None
    if attempt.steps_done == attempt.steps:
        return f"all {attempt.steps} steps are done: decoding, writing"
    return f"step {attempt.steps_done} of {attempt.steps}"


class JobObserver:
    """Looks at one job again and again. What cannot change any more is asked for once."""

    def __init__(self, deployment: Deployment, job_id: str) -> None:
        self._deployment = deployment
        self._job_id = job_id
        self._queued_at: datetime | None = None

    def look(self) -> JobSnapshot:
        """Return the job as it is now."""
        execution = self._execution()
        row = self._deployment.jobs.get(self._job_id) if execution else None
        worker = self._worker(row) if row else None
        no_worker = worker is None or worker.state == "ENDED"
        failure = find_worker_failure(self._deployment.workers(row.pipeline)) if row and no_worker else None
        batch = self._batch_job(worker) if worker and worker.state in ("SUBMITTED", "STARTING") else {}
        return JobSnapshot(execution, row, worker, failure, batch, self._last_line(batch))

    def _execution(self) -> JobExecution | None:
        arn = self._deployment.execution_arn(self._job_id)
        execution = read_execution(self._deployment, arn)
        if execution is None:
            return None
        self._queued_at = self._queued_at or _task_submitted(self._deployment, arn)
        return JobExecution(**{**vars(execution), "queued_at": self._queued_at})

    def _worker(self, row: JobRow) -> WorkerRow | None:
        """Return the job's worker; before it has one, the worker that is closest to taking it."""
        workers = self._deployment.workers(row.pipeline)
        return workers.get(row.worker) if row.worker else nearest_worker(workers)

    def _batch_job(self, worker: WorkerRow) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = self._deployment.clients("batch").describe_jobs(jobs=[worker.worker])["jobs"]
        return jobs[0] if jobs else {}

    def _last_line(self, batch: dict[str, Any]) -> str | None:
        """Return the last line that a worker has logged while it loads, such as a download's progress; no warning."""
        stream = log_stream(self._deployment, batch) if batch.get("status") == "RUNNING" else None
        if stream is None:
            return None
        logs = self._deployment.clients("logs")
        try:
            answer = logs.get_log_events(**stream, limit=_LINES, startFromHead=False)
        except logs.exceptions.ResourceNotFoundException:
            return None
        messages = [message_of(event["message"]) for event in answer["events"]]
        return next((message for message in reversed(messages) if message is not None), None)


def message_of(line: str) -> str | None:
    """Return the text of a line of a worker's log that tells its progress; None for a warning.

    A line in JSON has a message, and a line of another program is returned as it is. A person who waits can do nothing
    about a warning.
    """
    try:
        fields = json.loads(line)
        return str(fields["message"]) if fields.get("level", "INFO") == "INFO" else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None if _WARNING.search(line) else line


def log_stream(deployment: Deployment, batch: dict[str, Any]) -> dict[str, str] | None:
    """Return a Batch job's log group and stream, as arguments of GetLogEvents; None before it has a stream.

    A description of a job need not repeat the log configuration of its job definition.
    """
    container = batch.get("container", {})
    if not container.get("logStreamName"):
        return None
    configuration = container.get("logConfiguration")
    if configuration is None and "jobDefinition" in batch:
        answer = deployment.clients("batch").describe_job_definitions(jobDefinitions=[batch["jobDefinition"]])
        for definition in answer["jobDefinitions"]:
            configuration = definition.get("containerProperties", {}).get("logConfiguration")
    group = (configuration or {}).get("options", {}).get("awslogs-group", "/aws/batch/job")
    return {"logGroupName": group, "logStreamName": container["logStreamName"]}


def read_execution(deployment: Deployment, arn: str) -> JobExecution | None:
    """Return an execution, or None where it was not started (yet)."""
    stepfunctions = deployment.clients("stepfunctions")
    try:
        response = stepfunctions.describe_execution(executionArn=arn)
    except stepfunctions.exceptions.ExecutionDoesNotExist:
        return None
    return JobExecution(
        status=response["status"],
        started_at=response["startDate"].astimezone(UTC),
        queued_at=None,
        request=json.loads(response.get("input", "{}")),
        output=response.get("output"),
        error=response.get("error"),
        cause=response.get("cause"),
    )


class IsRun(CliError):  # noqa: N818 - it says what is wrong
    """End a command on jobs because the person named a run. `others` are the other commands that it can be given."""

    def __init__(self, run: str, others: str = "watch, export, cancel or retry") -> None:
        super().__init__(
            f"{run} is a run of many jobs.",
            f"Use the commands on runs: cosmos-batch runs show {run}, and {others}.",
        )


def find_job(deployment: Deployment, job_id: str, seconds: float = 0) -> tuple[JobExecution, JobRow | None]:
    """Return a job's execution and row, looking for it for `seconds`. Raises CliError where there is none.

    Raises IsRun for the id of a run, whose executions are those of the same state machine. A file of a run has a job
    without an execution: the error names its run.
    """
    arn, deadline = deployment.execution_arn(job_id), time.monotonic() + seconds
    while (execution := read_execution(deployment, arn)) is None:
        if deployment.runs.get(job_id) is not None:
            raise IsRun(job_id)
        if (row := deployment.jobs.get(job_id)) is not None and row.paid_by is not None:
            raise _is_item(row, row.paid_by)
        if time.monotonic() >= deadline:
            raise no_such_job(job_id)
        time.sleep(POLL_SECONDS)
    if "run" in execution.request:
        raise IsRun(job_id)
    return execution, deployment.jobs.get(job_id)


def _is_item(row: JobRow, paid_by: str) -> CliError:
    """Return the error of a command on jobs that names an item. Several runs may have it; one has paid for it."""
    others = sorted({Watcher.parse(text).run for text in row.watchers | row.reused_by} - {paid_by})
    if not others:
        return CliError(f"{row.job_id} is a file of a run.", f"All its files: cosmos-batch runs show {paid_by}")
    named = ", ".join(others[:_OTHER_RUNS]) + (" and others" if len(others) > _OTHER_RUNS else "")
    return CliError(
        f"{row.job_id} is a file of the runs {paid_by}, {named}; {paid_by} has paid for its answer.",
        "All files of a run: cosmos-batch runs show RUN",
    )


def no_such_job(job_id: str) -> CliError:
    """Return the error of a command that names a job which does not exist here."""
    return CliError(f"There is no job {job_id} here.", "`cosmos-batch status` lists the recent jobs.")


def _task_submitted(deployment: Deployment, arn: str) -> datetime | None:
    return next((time for kind, time in _history(deployment, arn) if kind == "TaskSubmitted"), None)


def _history(deployment: Deployment, arn: str) -> Iterator[tuple[str, datetime]]:
    pages = deployment.clients("stepfunctions").get_paginator("get_execution_history").paginate(executionArn=arn)
    for page in pages:
        for event in page["events"]:
            yield event["type"], event["timestamp"].astimezone(UTC)
