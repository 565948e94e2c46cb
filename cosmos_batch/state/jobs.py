"""The row of a job: its state, its attempts, and the attempt that won. Each method changes it by one conditional write.

States: PLANNED -> RUNNING -> COMMITTED -> SUCCEEDED or FAILED; CANCELLED from PLANNED or RUNNING.

An attempt is counted when a worker begins to prepare the job. It is subtracted again when the worker gives the job
back, and when the engine or the worker was lost with several jobs: each of them is then a suspect and runs alone, and
only a loss during an attempt that ran alone counts (decision 005). It is also subtracted when a remote server is busy
or away; the job then waits in its queue, see `Waiting`.

`item_jobs.py` has what only the jobs of runs' items need: one such job may answer items of several runs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.planning.pace import weight_of
from cosmos_batch.state.job_rows import FINAL, Attempt, ItemFacts, JobRow, Stage, Waiting
from cosmos_batch.state.table import ConditionFailed, Table, expires_at, now

# The part of an update expression that ends an attempt.
_CLOSED = "REMOVE #openAttempt DELETE #opened :ids"


def job_key(job_id: str) -> str:
    """Return the partition key of a job's row."""
    return f"job#{job_id}"


class Jobs:
    """The rows of all jobs. Methods that change an attempt do nothing once it has been closed."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def create(self, job: Job) -> None:
        """Write the row of a planned job. A job that has a row already keeps it unchanged."""
        weight = weight_of(job)
        try:
            self._table.put_new(job_key(job.job_id), "job", {**new_row(job), "weight": weight})
        except ConditionFailed:
            return
        self.count_waiting(job.pipeline, 1, weight)

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
        """Subtract a job that was decided from the pipeline's totals of waiting jobs."""
        if row.weight is not None:
            self.count_waiting(row.pipeline, -1, -row.weight)

    def get(self, job_id: str) -> JobRow | None:
        """Return the row, or None if the job was never planned."""
        item = self._table.get(job_key(job_id), "job")
        return None if item is None else JobRow.model_validate(item)

    def stamp(self, job_id: str, stage: Stage) -> None:
        """Record the time at which a job reached a stage."""
        self._table.update(job_key(job_id), "job", f"SET #stages.#{stage} = :now", {"now": now()})

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
        self._update_open_attempt(
            job_id,
            attempt_id,
            "SET #openAttempt.#stepsDone = :done, #openAttempt.#steps = :total",
            {"done": done, "total": total},
        )

    def undo_attempt(self, job_id: str, attempt_id: str, facts: ItemFacts | None = None) -> None:
        """Close an open attempt without counting it: the job did not cause its end."""
        expression = f"SET #attempts = #attempts - :one, #state = :planned {_CLOSED}"
        self._update_open_attempt(job_id, attempt_id, expression, facts=facts)

    def count_give_back(self, job_id: str) -> None:
        """Count that a worker gives the message of a job back to its queue, through no fault of the job."""
        try:
            self._update(job_id, "ADD #giveBacks :one", {"one": 1}, "attribute_exists(#jobId)")
        except ConditionFailed:
            return

    def pause(
        self, job_id: str, attempt_id: str, waiting: Waiting, interrupted: bool, facts: ItemFacts | None = None
    ) -> None:
        """Close an open attempt without counting it, because a remote server was busy or away; the job waits."""
        self._update_open_attempt(
            job_id,
            attempt_id,
            "SET #attempts = #attempts - :one, #state = :planned, #waiting = :waiting, "
            "#pauses = if_not_exists(#pauses, :none) + :one, "
            f"#interruptions = if_not_exists(#interruptions, :none) + :interruptions {_CLOSED}",
            {"waiting": waiting.model_dump(by_alias=True), "none": 0, "interruptions": int(interrupted)},
            facts,
        )

    def spend_attempt(self, job_id: str, attempt_id: str, error: Error, facts: ItemFacts | None = None) -> None:
        """Close an attempt in which the engine failed but still runs: it counts, and the next attempt runs alone."""
        self._update_open_attempt(
            job_id,
            attempt_id,
            f"SET #suspect = :yes, #state = :planned, #lastError = :error {_CLOSED}",
            {"error": error.model_dump(by_alias=True)},
            facts,
        )

    def close_lost_attempt(self, row: JobRow, error: Error | None = None, facts: ItemFacts | None = None) -> JobRow:
        """Close an attempt whose worker or engine was lost, if one is open, and return the row.

        The attempt counts only if it ran alone. The job is a suspect from now on, and its next attempt runs alone.
        `facts` is None for the attempt of a lost worker, because only that worker knew how long the attempt had the
        engine.
        """
        lost = row.open_attempt
        if lost is None:
            return row
        uncount = "" if lost.solo else ", #attempts = #attempts - :one"
        set_error = "" if error is None else ", #lastError = :error"
        self._update_open_attempt(
            row.job_id,
            lost.id,
            f"SET #suspect = :yes, #state = :planned{uncount}{set_error} {_CLOSED}",
            None if error is None else {"error": error.model_dump(by_alias=True)},
            facts,
        )
        return self.get(row.job_id) or row

    def _update_open_attempt(
        self,
        job_id: str,
        attempt_id: str,
        expression: str,
        extra: dict[str, object] | None = None,
        facts: ItemFacts | None = None,
    ) -> None:
        """Update a job while the attempt is open, and add what the attempt has cost.

        If the attempt was closed meanwhile, nothing is done; if another one is open or has won, only its cost is added.
        """
        available = {"one": 1, "planned": "PLANNED", "yes": True, "ids": {attempt_id}, **(extra or {})}
        values = {name: value for name, value in available.items() if f":{name}" in expression}
        try:
            self._update(
                job_id,
                f"{expression}{_cost_clause(facts)}",
                {**values, **_cost_values(facts), "attempt": attempt_id, "running": "RUNNING"},
                "#openAttempt.#id = :attempt AND #state = :running",
            )
        except ConditionFailed:
            self.add_cost(job_id, attempt_id, facts)

    def add_cost(self, job_id: str, attempt_id: str, facts: ItemFacts | None) -> None:
        """Add the cost of an item's attempt that could not be closed, because another one is open or has won.

        The cost is added once, because the same write removes the attempt from `opened`.
        """
        if facts is None or not facts.gpu_seconds:
            return
        values = {**_cost_values(facts), "ids": {attempt_id}, "attempt": attempt_id}
        try:
            self._update(job_id, f"DELETE #opened :ids{_cost_clause(facts)}", values, "contains(#opened, :attempt)")
        except ConditionFailed:
            return

    def commit(
        self,
        job_id: str,
        attempt_id: str,
        result: Result,
        inferred_at: str | None = None,
        facts: ItemFacts | None = None,
        planned_at: str | None = None,
    ) -> JobRow:
        """Make an attempt's result the result of the job. Raises ConditionFailed where the job is decided already.

        `inferred_at` is when the engine was done; None for an error. `facts` is given for an attempt at an item of a
        run that was in the engine; their cost is added to that of the earlier attempts. `planned_at` is when the job
        was planned, as the attempt has read it. ConditionFailed is raised too where the job has ended and was planned
        anew since: the new plan may want another model, or have another deadline.
        """
        same_plan = "" if planned_at is None else " AND #stages.#planned = :planned_at"
        plan = {} if planned_at is None else {"planned_at": planned_at}
        inferred = {} if inferred_at is None else {"inferred": inferred_at}
        revision = {} if facts is None else {"revision": facts.revision}
        row = self._update(
            job_id,
            "SET #winner = :attempt, #state = :committed, #result = :result, #stages.#committed = :now"
            f"{', #stages.#inferred = :inferred' if inferred else ''}{', #revision = :revision' if revision else ''} "
            f"{_CLOSED}{_cost_clause(facts)}",
            {
                "attempt": attempt_id,
                "ids": {attempt_id},
                "committed": "COMMITTED",
                "result": result.model_dump_json(),
                **inferred,
                **revision,
                **plan,
                **_cost_values(facts),
                "now": now(),
                "planned": "PLANNED",
                "running": "RUNNING",
            },
            f"attribute_not_exists(#winner) AND #state IN (:planned, :running){same_plan}",
        )
        self._subtract_waiting(row)
        return row

    def finish(self, job_id: str, error: Error | None, written_at: str | None = None) -> JobRow | None:
        """Note that a committed job's result was delivered, or could not be, and return the job's row as it is then.

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
        """Close a job that nobody waits for, unless its end was decided before, and return its row as it is then.

        A repeated call changes nothing. With `watchers`, the job is closed only if these are still all items that wait
        for it.
        """
        values = {
            "state": "CANCELLED" if cancelled else "FAILED",
            "result": result.model_dump_json(),
            "now": now(),
            "planned": "PLANNED",
            "running": "RUNNING",
        }
        condition = "#state IN (:planned, :running)"
        if watchers is not None:
            condition += f" AND {same_set('watchers', watchers, values)}"
        expression = "SET #state = :state, #result = :result, #stages.#reported = :now"
        try:
            row = self._update(job_id, expression, values, condition)
        except ConditionFailed:
            return self.get(job_id)
        self._subtract_waiting(row)
        return row

    def _update(self, job_id: str, expression: str, values: Mapping[str, object], condition: str) -> JobRow:
        return JobRow.model_validate(self._table.update(job_key(job_id), "job", expression, values, condition))


def _cost_clause(facts: ItemFacts | None) -> str:
    """Return the part of an update expression that adds the cost of an item's attempt to that of its job."""
    return "" if facts is None else " ADD #gpuSeconds :gpuSeconds, #dollars :dollars"


def _cost_values(facts: ItemFacts | None) -> dict[str, object]:
    """Return the values to which `_cost_clause` refers."""
    return {} if facts is None else {"gpuSeconds": facts.gpu_seconds, "dollars": facts.dollars}


def new_row(job: Job) -> dict[str, Any]:
    """Return the attributes of a planned job's row."""
    row: dict[str, Any] = {
        "jobId": job.job_id,
        "pipeline": job.pipeline,
        "state": "PLANNED",
        "document": f"s3://{job.document.bucket}/{job.document.key}",
        "executionArn": job.execution_arn,
        "attempts": 0,
        "deadline": sortable_time(job.deadline),
        "stages": {"planned": now()},
        "expiresAt": expires_at(),
    }
    if job.inputs:
        row["input"] = f"s3://{job.inputs[0].bucket}/{job.inputs[0].key}"
    return row


def sortable_time(time: datetime) -> str:
    """Return a time in UTC as text, such that later times are greater texts."""
    return time.astimezone(UTC).isoformat(timespec="milliseconds")


def same_set(name: str, known: set[str] | frozenset[str], values: dict[str, Any]) -> str:
    """Return the condition that an attribute is still the set that was read, and add the set to `values`.

    DynamoDB stores no empty set, so an empty one is an absent attribute.
    """
    if not known:
        return f"attribute_not_exists(#{name})"
    values[f"known_{name}"] = set(known)
    return f"#{name} = :known_{name}"
