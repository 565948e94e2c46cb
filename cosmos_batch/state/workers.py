"""Workers, and the pipelines that they serve: what `scale` decides by."""

from typing import Literal

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.state.revisions import Revisions
from cosmos_batch.state.table import ConditionFailed, Row, Table, expires_at, now

ENDED_KEEP_SECONDS = 86_400

WorkerState = Literal["SUBMITTED", "STARTING", "READY", "DRAINING", "ENDED"]

# The kinds of cause of which a worker ends without having served: there was no instance for it, its host was taken
# away, its processes were killed from outside, something that may pass by itself, something that does not.
Cause = Literal["capacity", "lost", "killed", "passing", "permanent"]


class WorkerRow(Row):
    """One worker, named by its Batch job."""

    worker: str
    state: WorkerState
    submitted_at: str | None = None
    last_seen: str
    job_definition: str | None = Field(default=None, description="ARN, with its revision")
    model: str | None = Field(default=None, description="That it has loaded")
    revision: str | None = Field(default=None, description="Tag or branch of the model that the configuration names")
    commit: str | None = Field(default=None, description="That it has loaded of it; a folder's digest")
    completed: int = Field(default=0, description="Jobs that it answered")
    alone_with: str | None = Field(default=None, description="The last job that had its engine for itself")
    in_company: bool = Field(default=False, description="It has begun jobs together with others")
    must_drain: bool = Field(default=False, description="`scale` asks it to leave")
    keep: bool = Field(default=False, description="Warm: `scale` asks it to stay, work or none")
    judged: bool = Field(default=False, description="`scale` has drawn from it what it says about the breaker")
    error: Error | None = Field(default=None, description="Why it could not serve")
    cause: Cause | None = Field(default=None, description="Of which kind that was; None where only `error` tells")
    stages: dict[str, str] = Field(default_factory=dict, description="started, modelLoaded, ended: times")


class PipelineRow(Row):
    """A pipeline's breaker, and its measured pace."""

    failures: int = Field(default=0, description="Waves of workers, in a row, that could not serve")
    retry_at: str | None = Field(default=None, description="No worker is started before then")
    open: bool = Field(default=False, description="The breaker is open: one worker at a time tries, after each pause")
    reason: Error | None = Field(default=None, description="Why the last worker that could not serve ended")
    job_definition: str | None = Field(default=None, description="Of the workers that all of this is about")
    kills: int = Field(default=0, description="Waves of workers, in a row, that were killed while they started")
    counted_at: dict[str, str] = Field(
        default_factory=dict, description="For a cause, when a worker that died of it was last counted"
    )
    company_deaths: int = Field(default=0, description="Workers, in a row, that died of one of several jobs")
    culprits: list[str] = Field(default_factory=list, description="Jobs of which a worker died, alone")
    wanted: int = Field(default=0, description="Workers that it wanted when `scale` last looked")
    seconds_per_unit: float | None = Field(
        default=None, description="Of a fully loaded worker, for a unit of weight, as far as that was measured"
    )
    waiting_jobs: int = Field(default=0, description="Jobs that were planned with a weight and are not decided")
    waiting_weight: float = Field(default=0, description="Of those together")
    surplus: dict[str, float] = Field(
        default_factory=dict, description="Those two, jobs and weight, as they were when the queue was empty"
    )
    surplus_since: str | None = Field(default=None, description="When they were first seen so")
    cold_start_seconds: float | None = Field(default=None, description="From SubmitJob to a loaded model")

    @property
    def refuses(self) -> bool:
        """Whether waiting jobs fail with `reason`: no worker can start, and the cause does not pass by itself."""
        return self.open and self.reason is not None and not self.reason.retryable


def _pk(pipeline: str) -> str:
    return f"pipeline#{pipeline}"


def _worker(item: dict[str, object]) -> WorkerRow:
    return WorkerRow.model_validate({**item, "error": _error(item.get("error"))})


def _error(text: object) -> Error | None:
    return Error.model_validate_json(text) if isinstance(text, str) else None


class Workers:
    """The workers of one pipeline, and the pipeline's own row."""

    def __init__(self, table: Table, pipeline: str) -> None:
        self._table = table
        self._pipeline = pipeline
        self._pk = _pk(pipeline)

    @property
    def revisions(self) -> Revisions:
        """The recorded revisions of the pipeline's models."""
        return Revisions(self._table, self._pipeline)

    def list(self) -> list[WorkerRow]:
        """Every worker that is known, ended ones included (a day long)."""
        return [_worker(item) for item in self._table.query(self._pk, "worker#")]

    def get(self, worker: str) -> WorkerRow | None:
        item = self._table.get(self._pk, f"worker#{worker}")
        return None if item is None else _worker(item)

    def submitted(self, worker: str, job_definition: str) -> None:
        """SubmitJob answered. The worker may have come first and written more: then that stays."""
        self._table.update(
            self._pk,
            f"worker#{worker}",
            "SET #worker = :worker, #submittedAt = :now, #jobDefinition = :definition, "
            "#state = if_not_exists(#state, :submitted), #lastSeen = if_not_exists(#lastSeen, :now), "
            "#stages = if_not_exists(#stages, :none)",
            {"worker": worker, "now": now(), "definition": job_definition, "submitted": "SUBMITTED", "none": {}},
        )

    def started(self, worker: str) -> WorkerRow:
        """The worker's process runs. What is returned says whether it was asked to leave before it began."""
        time = now()
        return _worker(
            self._table.update(
                self._pk,
                f"worker#{worker}",
                "SET #worker = :worker, #state = :starting, #lastSeen = :now, #stages = :stages",
                {"worker": worker, "now": time, "starting": "STARTING", "stages": {"started": time}},
            )
        )

    def ready(self, worker: str) -> WorkerRow:
        """The model is loaded; also the way back from a drain that found work."""
        return self._set(worker, "SET #state = :ready, #lastSeen = :now, #stages.#modelLoaded = :now", ready="READY")

    def loaded(self, worker: str, model: str, revision: str, commit: str) -> None:
        """Note which model the worker answers with: `scale` lets it leave when another commit is recorded."""
        self._set(
            worker,
            "SET #model = :model, #revision = :revision, #commit = :commit",
            model=model,
            revision=revision,
            commit=commit,
        )

    def seen(self, worker: str, completed: int) -> WorkerRow:
        """The worker is alive. What is returned says whether it must drain."""
        return self._set(worker, "SET #lastSeen = :now, #completed = :completed", completed=completed)

    def alone_with(self, worker: str, job_id: str) -> None:
        """A job has the engine for itself now: if the worker dies, it died of this one."""
        self._set(worker, "SET #aloneWith = :job", job=job_id)

    def began_in_company(self, worker: str) -> None:
        """Jobs are in the engine together now: if the worker dies, each of them is a suspect and none is to blame."""
        self._set(worker, "SET #inCompany = :yes", yes=True)

    def draining(self, worker: str) -> WorkerRow:
        """The worker leaves unless a last look at the queue finds something: `scale` no longer counts on it.

        What is returned says whether it was asked to stay before that: then `scale` still counts on it.
        """
        return self._set(worker, "SET #state = :draining, #lastSeen = :now", draining="DRAINING")

    def keep(self, worker: str, keep: bool) -> None:
        """Ask a worker to stay though it has no work, or no longer."""
        self._set(worker, "SET #keep = :keep, #lastSeen = #lastSeen", keep=keep)

    def must_drain(self, worker: str) -> None:
        """Ask a worker to leave when it has finished what it holds."""
        self._set(worker, "SET #mustDrain = :yes, #lastSeen = #lastSeen", yes=True)

    def ended(
        self, worker: str, error: Error | None = None, completed: int | None = None, cause: Cause | None = None
    ) -> bool:
        """The worker is gone. False if that was known already."""
        text = None if error is None else error.model_dump_json()
        expression = "SET #state = :ended, #stages.#ended = :now, #expiresAt = :later"
        values: dict[str, object] = {"ended": "ENDED", "now": now(), "later": expires_at(ENDED_KEEP_SECONDS)}
        if text is not None:
            expression, values["error"] = expression + ", #error = :error", text
        if cause is not None:
            expression, values["cause"] = expression + ", #cause = :cause", cause
        if completed is not None:
            expression, values["completed"] = expression + ", #completed = :completed", completed
        try:
            self._table.update(self._pk, f"worker#{worker}", expression, values, "#state <> :ended")
        except ConditionFailed:
            return False
        return True

    def judged(self, worker: str) -> None:
        """The breaker knows of this worker's success or failure: it counts once."""
        self._set(worker, "SET #judged = :yes", yes=True)

    def pipeline(self) -> PipelineRow:
        """The pipeline's own row; a new one is empty."""
        item = self._table.get(self._pk, "pipeline") or {}
        return PipelineRow.model_validate({**item, "reason": _error(item.get("reason"))})

    def measured(self, seconds_per_unit: float | None = None, cold_start_seconds: float | None = None) -> None:
        """Note a worker's pace; the latest counts."""
        offered = {"secondsPerUnit": seconds_per_unit, "coldStartSeconds": cold_start_seconds}
        values = {name: value for name, value in offered.items() if value is not None}
        changes = ", ".join(f"#{name} = :{name}" for name in values)
        self._table.update(self._pk, "pipeline", f"SET {changes}", values)

    def note_surplus(self, jobs: int, weight: float, since: str | None) -> None:
        """Note the totals of what waits, which should be 0; `since` is None where they are."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #surplus = :totals, #surplusSince = :since",
            {"totals": {"jobs": jobs, "weight": weight}, "since": since},
        )

    def subtract_surplus(self, jobs: int, weight: float) -> None:
        """Set the totals of what waits right. Jobs that are planned at this moment stay counted."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #surplusSince = :none ADD #waitingJobs :jobs, #waitingWeight :weight",
            {"jobs": -jobs, "weight": -weight, "none": None},
        )

    def wanted(self, workers: int) -> None:
        """Note how many workers the pipeline wants, for pipelines that must leave room for it."""
        self._table.update(self._pk, "pipeline", "SET #wanted = :wanted", {"wanted": workers})

    def set_breaker(self, breaker: PipelineRow) -> None:
        """Write the breaker's part of the row; `scale` is the only one who does, one at a time."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #failures = :failures, #retryAt = :retryAt, #open = :open, #reason = :reason, #culprits = :culprits, "
            "#companyDeaths = :companyDeaths, #kills = :kills, #countedAt = :countedAt, "
            "#jobDefinition = :jobDefinition",
            {
                "failures": breaker.failures,
                "retryAt": breaker.retry_at,
                "open": breaker.open,
                "reason": None if breaker.reason is None else breaker.reason.model_dump_json(),
                "culprits": breaker.culprits,
                "companyDeaths": breaker.company_deaths,
                "kills": breaker.kills,
                "countedAt": breaker.counted_at,
                "jobDefinition": breaker.job_definition,
            },
        )

    def _set(self, worker: str, expression: str, **values: object) -> WorkerRow:
        time = {"now": now()} if ":now" in expression else {}
        return _worker(self._table.update(self._pk, f"worker#{worker}", expression, {**time, **values}))
