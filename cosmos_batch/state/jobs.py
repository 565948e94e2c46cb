"""A job's row: its state, its attempts, its winner. Each function is one conditional write.

States: PLANNED -> RUNNING -> COMMITTED -> SUCCEEDED or FAILED; CANCELLED from any but the last three.
An attempt counts from the moment the engine starts on a job. It is undone when a worker gives the job back, and when
it was lost together with others: the job is then a suspect and runs alone, and only a death on its own counts.
Where a server that the engine asks is busy or away, it is undone, and the job waits in its queue: see `Waiting`.
"""

from typing import Literal

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.pace import weight_of
from cosmos_batch.contract.result import Result
from cosmos_batch.state.table import ConditionFailed, Row, Table, expires_at, now

JobState = Literal["PLANNED", "RUNNING", "COMMITTED", "SUCCEEDED", "FAILED", "CANCELLED"]
FINAL: tuple[JobState, ...] = ("SUCCEEDED", "FAILED", "CANCELLED")
Stage = Literal["planned", "received", "started", "inferred", "committed", "written", "calledBack", "reported"]

# The end of an attempt, in the language of DynamoDB's update expressions.
_CLOSED = "REMOVE #openAttempt DELETE #opened :ids"


class Attempt(Row):
    """An attempt that was opened and has not ended."""

    id: str
    worker: str
    solo: bool = Field(description="It ran alone in its engine")
    steps_done: int = Field(default=0, description="Of `steps`, when its worker last said so")
    steps: int | None = Field(default=None, description="That the engine takes; None where it does not say")


class Waiting(Row):
    """What a planned job waits for, whose engine asks a server that was busy or away."""

    reason: str = Field(description="What the server did, in a person's words")
    until: str = Field(description="It is asked again then (ISO 8601, UTC)")


class JobRow(Row):
    """What is known of a job."""

    job_id: str
    pipeline: str
    state: JobState
    input: str | None = Field(default=None, description="S3 URI")
    document: str = Field(description="S3 URI of the reserved key")
    execution_arn: str
    weight: float | None = Field(default=None, description="What `scale` reckons with; rows of commit 0f4e7e0 lack it")
    attempts: int = 0
    suspect: bool = False
    open_attempt: Attempt | None = None
    opened: set[str] = Field(
        default_factory=set,
        description="Ids of all attempts that are under way: two, where a message was delivered twice",
    )
    waiting: Waiting | None = None
    pauses: int = Field(default=0, description="How often it was put back to wait for a server")
    interruptions: int = Field(default=0, description="Of these, how often the server may have begun on it")
    winner: str | None = Field(default=None, description="Id of the attempt whose files count")
    worker: str | None = Field(default=None, description="Batch job id of the last worker")
    last_error: Error | None = Field(default=None, description="What the engine failed of when it last did")
    result: Result | None = None
    stages: dict[str, str] = Field(default_factory=dict, description="Stage to time (ISO 8601, UTC)")


def _pk(job_id: str) -> str:
    return f"job#{job_id}"


def _row(item: dict[str, object]) -> JobRow:
    result = item.get("result")
    parsed = Result.model_validate_json(result) if isinstance(result, str) else None
    return JobRow.model_validate({**item, "result": parsed})


class Jobs:
    """The rows of all jobs."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, job: Job) -> None:
        """Write a planned job's row; planned again, it stays as it is."""
        weight = weight_of(job)
        row = {
            "weight": weight,
            "jobId": job.job_id,
            "pipeline": job.pipeline,
            "state": "PLANNED",
            "document": f"s3://{job.document.bucket}/{job.document.key}",
            "executionArn": job.execution_arn,
            "attempts": 0,
            "stages": {"planned": now()},
            "expiresAt": expires_at(),
        }
        if job.inputs:
            row["input"] = f"s3://{job.inputs[0].bucket}/{job.inputs[0].key}"
        try:
            self._table.put_new(_pk(job.job_id), "job", row)
        except ConditionFailed:
            return
        self._waits(job.pipeline, 1, weight)

    def _waits(self, pipeline: str, jobs: int, weight: float) -> None:
        """Count a job among those that wait or are being done, or, with negative numbers, no more.

        Each is called after a write that succeeds once for a job. Who dies in between leaves the totals wrong by one
        job; `scale` reckons with their ratio alone and sets them right when the queue is empty.
        """
        self._table.update(
            f"pipeline#{pipeline}",
            "pipeline",
            "ADD #waitingJobs :jobs, #waitingWeight :weight",
            {"jobs": jobs, "weight": weight},
        )

    def _waits_no_more(self, row: JobRow) -> None:
        if row.weight is not None:
            self._waits(row.pipeline, -1, -row.weight)

    def get(self, job_id: str) -> JobRow | None:
        """The row, or None if the job was never planned."""
        item = self._table.get(_pk(job_id), "job")
        return None if item is None else _row(item)

    def stamp(self, job_id: str, stage: Stage) -> None:
        """Note that a job reached a stage."""
        self._table.update(_pk(job_id), "job", f"SET #stages.#{stage} = :now", {"now": now()})

    def open_attempt(self, job_id: str, attempt: Attempt) -> JobRow:
        """Count an attempt: the engine starts now. Raises ConditionFailed where the job is decided already.

        Sent again, it counts once: boto3 repeats a call whose response was lost, and the row knows the ids of all
        attempts that are under way. One that has ended may be opened again.
        """
        try:
            return self._update(
                job_id,
                "SET #state = :running, #attempts = #attempts + :one, #openAttempt = :attempt, #worker = :worker, "
                "#stages.#started = :now ADD #opened :ids REMOVE #waiting",
                {
                    "running": "RUNNING",
                    "one": 1,
                    "attempt": attempt.model_dump(by_alias=True),
                    "worker": attempt.worker,
                    "now": now(),
                    "planned": "PLANNED",
                    "ids": {attempt.id},
                    "id": attempt.id,
                },
                "attribute_not_exists(#winner) AND #state IN (:planned, :running) AND NOT contains(#opened, :id)",
            )
        except ConditionFailed:
            row = self.get(job_id)
            if row is None or row.winner is not None or row.state in FINAL or attempt.id not in row.opened:
                raise
            return row

    def note_steps(self, job_id: str, attempt_id: str, done: int, total: int) -> None:
        """Note how far an open attempt is."""
        self._change(
            job_id,
            attempt_id,
            "SET #openAttempt.#stepsDone = :done, #openAttempt.#steps = :total",
            {"done": done, "total": total},
        )

    def undo_attempt(self, job_id: str, attempt_id: str) -> None:
        """Take an open attempt back: the job was not to blame. One that ended meanwhile is left alone."""
        self._change(job_id, attempt_id, f"SET #attempts = #attempts - :one, #state = :planned {_CLOSED}")

    def pause(self, job_id: str, attempt_id: str, waiting: Waiting, interrupted: bool) -> None:
        """A server was busy or away: the attempt does not count, and the job waits, suspected of nothing."""
        self._change(
            job_id,
            attempt_id,
            "SET #attempts = #attempts - :one, #state = :planned, #waiting = :waiting, "
            "#pauses = if_not_exists(#pauses, :none) + :one, "
            f"#interruptions = if_not_exists(#interruptions, :none) + :interruptions {_CLOSED}",
            {"waiting": waiting.model_dump(by_alias=True), "none": 0, "interruptions": int(interrupted)},
        )

    def spend_attempt(self, job_id: str, attempt_id: str, error: Error) -> None:
        """The engine failed on the job and lives: the attempt stays counted, the next one runs alone."""
        self._change(
            job_id,
            attempt_id,
            f"SET #suspect = :yes, #state = :planned, #lastError = :error {_CLOSED}",
            {"error": error.model_dump(by_alias=True)},
        )

    def settle_lost(self, row: JobRow, error: Error | None = None) -> JobRow:
        """Close the open attempt of a worker or an engine that was lost. The job is a suspect: it runs alone now.

        The attempt stays counted only if it ran alone. Returns the row as it is then.
        """
        lost = row.open_attempt
        if lost is None:
            return row
        uncount = "" if lost.solo else ", #attempts = #attempts - :one"
        noted = "" if error is None else ", #lastError = :error"
        self._change(
            row.job_id,
            lost.id,
            f"SET #suspect = :yes, #state = :planned{uncount}{noted} {_CLOSED}",
            None if error is None else {"error": error.model_dump(by_alias=True)},
        )
        return self.get(row.job_id) or row

    def _change(self, job_id: str, attempt_id: str, expression: str, extra: dict[str, object] | None = None) -> None:
        """Where the attempt was closed meanwhile, the job stays as it is."""
        offered = {"one": 1, "planned": "PLANNED", "yes": True, "ids": {attempt_id}, **(extra or {})}
        values = {name: value for name, value in offered.items() if f":{name}" in expression}
        try:
            self._update(
                job_id,
                expression,
                {**values, "attempt": attempt_id, "running": "RUNNING"},
                "#openAttempt.#id = :attempt AND #state = :running",
            )
        except ConditionFailed:
            return

    def commit(self, job_id: str, attempt_id: str, result: Result, inferred_at: str | None = None) -> JobRow:
        """Make an attempt's result the job's. Raises ConditionFailed where another attempt won, or it was closed.

        `inferred_at` is when the engine had answered; an error has none.
        """
        inferred = {} if inferred_at is None else {"inferred": inferred_at}
        row = self._update(
            job_id,
            "SET #winner = :attempt, #state = :committed, #result = :result, #stages.#committed = :now"
            f"{', #stages.#inferred = :inferred' if inferred else ''} REMOVE #openAttempt",
            {
                "attempt": attempt_id,
                "committed": "COMMITTED",
                "result": result.model_dump_json(),
                **inferred,
                "now": now(),
                "planned": "PLANNED",
                "running": "RUNNING",
            },
            "attribute_not_exists(#winner) AND #state IN (:planned, :running)",
        )
        self._waits_no_more(row)
        return row

    def finish(self, job_id: str, error: Error | None, written_at: str | None = None) -> None:
        """The caller was told. Idempotent; a cancelled job stays cancelled.

        `written_at` is when its files were at their final keys; an error has none, and is the job's result from now on.
        """
        state = "SUCCEEDED" if error is None else "FAILED"
        changes = {"state": state, "stages.#calledBack": now()}
        if written_at is not None:
            changes["stages.#written"] = written_at
        if error is not None:
            changes["result"] = Result(job_id=job_id, error=error).model_dump_json()
        values = {path.rpartition("#")[2]: value for path, value in changes.items()}
        expression = ", ".join(f"#{path} = :{path.rpartition('#')[2]}" for path in changes)
        try:
            self._update(
                job_id,
                f"SET {expression}",
                {**values, "cancelled": "CANCELLED"},
                "attribute_exists(pk) AND #state <> :cancelled",
            )
        except ConditionFailed:
            return

    def close(self, job_id: str, result: Result, cancelled: bool) -> None:
        """The execution ended, however: a job that is not decided yet never will be. Idempotent."""
        try:
            row = self._update(
                job_id,
                "SET #state = :state, #result = :result, #stages.#reported = :now",
                {
                    "state": "CANCELLED" if cancelled else "FAILED",
                    "result": result.model_dump_json(),
                    "now": now(),
                    "planned": "PLANNED",
                    "running": "RUNNING",
                },
                "#state IN (:planned, :running)",
            )
        except ConditionFailed:
            return
        self._waits_no_more(row)

    def _update(self, job_id: str, expression: str, values: dict[str, object], condition: str) -> JobRow:
        return _row(self._table.update(_pk(job_id), "job", expression, values, condition))
