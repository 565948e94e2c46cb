"""The row of a job: its state, its attempts, and the attempt that won. Each method is one conditional write.

States: PLANNED -> RUNNING -> COMMITTED -> SUCCEEDED or FAILED; CANCELLED from PLANNED or RUNNING.

An attempt is counted when a worker begins to prepare the job. It is subtracted again when the worker gives the job
back, and when the engine or the worker was lost with several jobs: each of them is then a suspect and runs alone, and
only a loss during an attempt that ran alone counts (decision 005). It is also subtracted when a remote server is busy
or away; the job then waits in its queue, see `Waiting`.

The job of a run's item is named after what is asked (`watch`), so that another run that asks the same finds it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.planning.pace import weight_of
from cosmos_batch.state.runs import Watcher
from cosmos_batch.state.table import ConditionFailed, Table, TableRow, expires_at, now

JobState = Literal["PLANNED", "RUNNING", "COMMITTED", "SUCCEEDED", "FAILED", "CANCELLED"]
FINAL: tuple[JobState, ...] = ("SUCCEEDED", "FAILED", "CANCELLED")
Stage = Literal["planned", "received", "started", "inferred", "committed", "written", "calledBack", "reported"]

# The part of an update expression that ends an attempt.
_CLOSED = "REMOVE #openAttempt DELETE #opened :ids"


class Attempt(TableRow):
    """An attempt that has been opened and has not ended."""

    id: str
    worker: str
    solo: bool = Field(description="Whether it runs alone in its engine")
    steps_done: int = Field(default=0, description="Steps done of `steps`, as last reported by its worker")
    steps: int | None = Field(default=None, description="Steps of the generation; None if the engine reports none")


class Waiting(TableRow):
    """The reason why a planned job waits in its queue: the remote server of its engine was busy or away."""

    reason: str = Field(description="What the server did, in a sentence for people")
    until: str = Field(description="When the next attempt can begin (ISO 8601, UTC)")


class JobRow(TableRow):
    """The row of a job."""

    job_id: str
    pipeline: str
    state: JobState
    input: str | None = Field(default=None, description="S3 URI")
    document: str = Field(description="S3 URI of the reserved key")
    execution_arn: str
    weight: float | None = Field(
        default=None, description="Its share of the work, for `scale`; rows of commit 0f4e7e0 lack it"
    )
    attempts: int = 0
    suspect: bool = False
    open_attempt: Attempt | None = None
    opened: set[str] = Field(
        default_factory=set,
        description="Ids of all attempts under way; there are two if a message was delivered twice",
    )
    waiting: Waiting | None = None
    pauses: int = Field(default=0, description="How often it was put back to wait for a server")
    interruptions: int = Field(
        default=0, description="How many of the pauses came after the server may have begun on it"
    )
    winner: str | None = Field(default=None, description="Id of the attempt whose result is the job's")
    worker: str | None = Field(default=None, description="Batch job id of the last worker")
    last_error: Error | None = Field(default=None, description="Error of the last attempt in which the engine failed")
    result: Result | None = None
    stages: dict[str, str] = Field(default_factory=dict, description="Stage to time (ISO 8601, UTC)")
    watchers: set[str] = Field(default_factory=set, description="Items of runs that wait for it: `Watcher.text`")
    paid_by: str | None = Field(default=None, description="The run whose item it was first, to which its price counts")
    gpu_seconds: float = 0.0
    dollars: float = 0.0
    revision: str | None = Field(default=None, description="Commit of the model that answered an item of a run")


@dataclass(frozen=True)
class ItemFacts:
    """What a worker notes about an item: its share of the GPUs' time, the price of that, and the model's commit."""

    gpu_seconds: float = 0.0
    dollars: float = 0.0
    revision: str | None = None


Watched = Literal["send", "joined", "ended"]
"""What is to be done about a watched job: send it to its queue; wait for it; or nothing, because it has ended."""

REUSED_FOR = timedelta(days=25)
"""How long an answer serves later runs. Its row and its document expire five days later (`KEEP_SECONDS`, and the
lifecycle of the state bucket), by when the tables of a run that uses it must have been written."""

_IN_FLIGHT = {"planned": "PLANNED", "running": "RUNNING", "committed": "COMMITTED"}
# What a job that is done again leaves behind of its earlier attempts.
_FORGOTTEN = (
    *("winner", "result", "openAttempt", "opened", "suspect", "lastError", "waiting", "pauses", "interruptions"),
    *("gpuSeconds", "dollars", "revision"),
)


def _pk(job_id: str) -> str:
    return f"job#{job_id}"


def _row(item: dict[str, object]) -> JobRow:
    result = item.get("result")
    parsed = Result.model_validate_json(result) if isinstance(result, str) else None
    return JobRow.model_validate({**item, "result": parsed})


class Jobs:
    """The rows of all jobs. Methods that change an attempt do nothing once it has been closed."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, job: Job) -> None:
        """Write the row of a planned job. A job that has a row already keeps it unchanged."""
        weight = weight_of(job)
        try:
            self._table.put_new(_pk(job.job_id), "job", {**_new_row(job), "weight": weight})
        except ConditionFailed:
            return
        self.count_waiting(job.pipeline, 1, weight)

    def watch(self, job: Job, watcher: Watcher, retry: bool) -> tuple[Watched, JobRow]:
        """Let an item of a run wait for a job, and create the job unless it exists. Returns what is to be done.

        The job of another run, or of the same run before, is not done twice: if it is in flight, the item waits for it
        too. If it has succeeded with the wanted commit of the model, the item has its answer. If it has failed, it is
        done again if its error may pass, or if `retry` asks for it; a cancelled one is done again in any case.

        The row has no weight: a shard counts in the pipeline's totals as a whole.
        """
        created = {**_new_row(job), "watchers": {watcher.text}, "paidBy": watcher.run}
        try:
            self._table.put_new(_pk(job.job_id), "job", created)
            return "send", _row(created)
        except ConditionFailed:
            pass
        while True:
            try:
                row = self._join(job.job_id, watcher)
            except ConditionFailed:
                ended = self.get(job.job_id)
                assert ended is not None, "the row of a job is kept for a month"
                if ended.state not in FINAL:
                    continue  # another run has just had it done again
                if not _may_end_otherwise(ended, job, retry):
                    return "ended", ended
                try:
                    return "send", self._reopen(job, watcher, ended)
                except ConditionFailed:
                    continue  # another run was faster
            # The feeding of this run may have ended before it sent the message.
            return ("send" if row.state == "PLANNED" and row.paid_by == watcher.run else "joined"), row

    def _join(self, job_id: str, watcher: Watcher) -> JobRow:
        values: dict[str, object] = {"watchers": {watcher.text}, **_IN_FLIGHT}
        states = "#state IN (:planned, :running, :committed)"
        return self._update(job_id, "ADD #watchers :watchers", values, states)

    def _reopen(self, job: Job, watcher: Watcher, ended: JobRow) -> JobRow:
        new = {name: value for name, value in _new_row(job).items() if name not in ("jobId", "pipeline", "input")}
        # Earlier watchers stay: one of them may not have been counted yet, and no end is counted twice.
        expression = (
            f"SET {', '.join(f'#{name} = :{name}' for name in new)}, #paidBy = :run "
            f"REMOVE {', '.join(f'#{name}' for name in _FORGOTTEN)} ADD #watchers :watchers"
        )
        values = {**new, "run": watcher.run, "watchers": {watcher.text}, "before": ended.state}
        return self._update(job.job_id, expression, values, "#state = :before")

    def count_waiting(self, pipeline: str, jobs: int, weight: float) -> None:
        """Add to the pipeline's totals of undecided jobs and of their weight; negative numbers subtract.

        It is called after a write that succeeds only once for each job, or for each shard of a run. A process that ends
        between the two calls leaves the totals wrong by that. `scale` uses only their ratio, and corrects them when the
        queue is empty.
        """
        self._table.update(
            f"pipeline#{pipeline}",
            "pipeline",
            "ADD #waitingJobs :jobs, #waitingWeight :weight",
            {"jobs": jobs, "weight": weight},
        )

    def _subtract_waiting(self, row: JobRow) -> None:
        if row.weight is not None:
            self.count_waiting(row.pipeline, -1, -row.weight)

    def get(self, job_id: str) -> JobRow | None:
        """Return the row, or None if the job was never planned."""
        item = self._table.get(_pk(job_id), "job")
        return None if item is None else _row(item)

    def stamp(self, job_id: str, stage: Stage) -> None:
        """Record the time at which a job reached a stage."""
        self._table.update(_pk(job_id), "job", f"SET #stages.#{stage} = :now", {"now": now()})

    def open_attempt(self, job_id: str, attempt: Attempt) -> JobRow:
        """Open an attempt and count it. Raises ConditionFailed where the job is decided already.

        A repeated call counts once, because boto3 repeats a call whose response was lost: `opened` has the ids of all
        attempts under way. An attempt that has ended may be opened again.
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
        """Record how many steps of an open attempt are done."""
        self._change(
            job_id,
            attempt_id,
            "SET #openAttempt.#stepsDone = :done, #openAttempt.#steps = :total",
            {"done": done, "total": total},
        )

    def undo_attempt(self, job_id: str, attempt_id: str) -> None:
        """Close an open attempt without counting it: the job did not cause its end."""
        self._change(job_id, attempt_id, f"SET #attempts = #attempts - :one, #state = :planned {_CLOSED}")

    def pause(self, job_id: str, attempt_id: str, waiting: Waiting, interrupted: bool) -> None:
        """Close an open attempt without counting it, because a remote server was busy or away; the job waits."""
        self._change(
            job_id,
            attempt_id,
            "SET #attempts = #attempts - :one, #state = :planned, #waiting = :waiting, "
            "#pauses = if_not_exists(#pauses, :none) + :one, "
            f"#interruptions = if_not_exists(#interruptions, :none) + :interruptions {_CLOSED}",
            {"waiting": waiting.model_dump(by_alias=True), "none": 0, "interruptions": int(interrupted)},
        )

    def spend_attempt(self, job_id: str, attempt_id: str, error: Error) -> None:
        """Close an attempt in which the engine failed but still runs: it counts, and the next attempt runs alone."""
        self._change(
            job_id,
            attempt_id,
            f"SET #suspect = :yes, #state = :planned, #lastError = :error {_CLOSED}",
            {"error": error.model_dump(by_alias=True)},
        )

    def settle_lost(self, row: JobRow, error: Error | None = None) -> JobRow:
        """Close an attempt whose worker or engine was lost, if one is open, and return the row.

        It counts only if it ran alone. The job is a suspect from now on, and its next attempt runs alone.
        """
        lost = row.open_attempt
        if lost is None:
            return row
        uncount = "" if lost.solo else ", #attempts = #attempts - :one"
        set_error = "" if error is None else ", #lastError = :error"
        self._change(
            row.job_id,
            lost.id,
            f"SET #suspect = :yes, #state = :planned{uncount}{set_error} {_CLOSED}",
            None if error is None else {"error": error.model_dump(by_alias=True)},
        )
        return self.get(row.job_id) or row

    def _change(self, job_id: str, attempt_id: str, expression: str, extra: dict[str, object] | None = None) -> None:
        """Update a job while the attempt is open; do nothing if it was closed meanwhile."""
        available = {"one": 1, "planned": "PLANNED", "yes": True, "ids": {attempt_id}, **(extra or {})}
        values = {name: value for name, value in available.items() if f":{name}" in expression}
        try:
            self._update(
                job_id,
                expression,
                {**values, "attempt": attempt_id, "running": "RUNNING"},
                "#openAttempt.#id = :attempt AND #state = :running",
            )
        except ConditionFailed:
            return

    def commit(
        self,
        job_id: str,
        attempt_id: str,
        result: Result,
        inferred_at: str | None = None,
        facts: ItemFacts | None = None,
    ) -> JobRow:
        """Make an attempt's result the result of the job. Raises ConditionFailed where the job is decided already.

        `inferred_at` is when the engine was done; None for an error. `facts` is given for an item of a run.
        """
        inferred = {} if inferred_at is None else {"inferred": inferred_at}
        noted: dict[str, object] = {}
        if facts is not None:
            noted = {"gpuSeconds": facts.gpu_seconds, "dollars": facts.dollars, "revision": facts.revision}
        row = self._update(
            job_id,
            "SET #winner = :attempt, #state = :committed, #result = :result, #stages.#committed = :now"
            f"{', #stages.#inferred = :inferred' if inferred else ''}"
            f"{''.join(f', #{name} = :{name}' for name in noted)} REMOVE #openAttempt",
            {
                "attempt": attempt_id,
                "committed": "COMMITTED",
                "result": result.model_dump_json(),
                **inferred,
                **noted,
                "now": now(),
                "planned": "PLANNED",
                "running": "RUNNING",
            },
            "attribute_not_exists(#winner) AND #state IN (:planned, :running)",
        )
        self._subtract_waiting(row)
        return row

    def finish(self, job_id: str, error: Error | None, written_at: str | None = None) -> JobRow | None:
        """Note that a committed job's result was delivered, or could not be delivered, and return the row then.

        Idempotent: only a job in state COMMITTED is changed, so the first call decides. A dead letter does not turn a
        delivered success into a failure, a worker does not revive a job that failed, and a cancelled one stays so.

        `written_at` is when the files were at their final keys. An `error` has none, and becomes the job's result.
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
            return self._update(
                job_id,
                f"SET {expression}",
                {**values, "committed": "COMMITTED"},
                "#state = :committed",
            )
        except ConditionFailed:
            return self.get(job_id)

    def close(
        self, job_id: str, result: Result, cancelled: bool, watchers: frozenset[str] | set[str] | None = None
    ) -> JobRow | None:
        """Close a job that nobody waits for, unless it was decided before, and return the row then. Idempotent.

        With `watchers`, it is closed only if no other item has come to wait for it.
        """
        unwatched = {"watchers": set(watchers)} if watchers else {}
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
                    **unwatched,
                },
                "#state IN (:planned, :running)" + (" AND #watchers = :watchers" if unwatched else ""),
            )
        except ConditionFailed:
            return self.get(job_id)
        self._subtract_waiting(row)
        return row

    def _update(self, job_id: str, expression: str, values: dict[str, object], condition: str) -> JobRow:
        return _row(self._table.update(_pk(job_id), "job", expression, values, condition))


def _new_row(job: Job) -> dict[str, Any]:
    """Return the attributes of a planned job's row."""
    row: dict[str, Any] = {
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
    return row


def _may_end_otherwise(row: JobRow, job: Job, retry: bool) -> bool:
    """Return whether a job that has ended can end otherwise if it is done again, perhaps by another model commit."""
    if row.state == "CANCELLED":
        return True
    if row.state == "SUCCEEDED":
        if datetime.now(UTC) - datetime.fromisoformat(row.stages["planned"]) >= REUSED_FOR:
            return True
        wanted = job.planned_for.revision if job.planned_for is not None else None
        return wanted is not None and row.revision != wanted
    error = None if row.result is None else row.result.error
    return row.state == "FAILED" and (retry or error is None or error.retryable)
