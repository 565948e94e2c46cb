"""The rows of workers, and of the pipelines that they serve. `scale` decides by them (decisions 005 and 071)."""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import Field

from cosmos_batch.contract.error import Error
from cosmos_batch.state.job_rows import Waiting
from cosmos_batch.state.revisions import Revisions
from cosmos_batch.state.shortages import Shortages
from cosmos_batch.state.table import ConditionFailed, Table, TableRow, expires_at, now

ENDED_KEEP_SECONDS = 86_400

WorkerState = Literal["SUBMITTED", "STARTING", "READY", "DRAINING", "ENDED"]

# Why a worker ended without having served: AWS had no instance for it, its host was taken away, its processes were
# killed from outside, for a cause that may pass by itself, or for one that does not (decision 005).
Cause = Literal["capacity", "lost", "killed", "passing", "permanent"]


class WorkerRow(TableRow):
    """The row of a worker, which has the id of its Batch job. Aliases are names by which fields have been stored."""

    worker: str
    state: WorkerState
    submitted_at: str | None = None
    last_seen: str
    job_definition: str | None = Field(default=None, description="ARN, with its revision")
    model: str | None = Field(default=None, description="Name of the loaded model")
    revision: str | None = Field(default=None, description="Tag or branch of the model in the configuration")
    commit: str | None = Field(default=None, description="The loaded commit of the model, or a folder's digest")
    guardrails: dict[str, str] = Field(
        default_factory=dict, description="The loaded commit of each model of its guardrails, which follow `main`"
    )
    completed: int = Field(default=0, description="Number of jobs that it has answered")
    server_answers: bool = Field(
        default=False, description="Whether the last of its jobs that needed a remote server was answered"
    )
    alone_with: str | None = Field(default=None, description="Id of the last job that ran alone in its engine")
    ran_several_jobs: bool = Field(
        default=False, alias="inCompany", description="Whether several jobs were in its engine at once"
    )
    must_drain: bool = Field(default=False, description="Whether `scale` asks it to leave")
    keep: bool = Field(default=False, description="Whether `scale` asks it to stay even without work")
    counted: bool = Field(
        default=False,
        alias="judged",
        description="Whether `scale` has counted its success or failure for the breaker",
    )
    error: Error | None = Field(default=None, description="Why it could not serve")
    cause: Cause | None = Field(default=None, description="Kind of that cause; None if it follows from `error`")
    waiting: Waiting | None = Field(
        default=None,
        description="If it leaves because a server is away: what the job waits for that is tried again last",
    )
    stages: dict[str, str] = Field(
        default_factory=dict, description="Times of the stages started, modelLoaded and ended"
    )


class PipelineRow(TableRow):
    """The row of a pipeline: its breaker, its measured pace, and the work that waits for it."""

    failures: int = Field(default=0, description="Consecutive waves of workers that could not serve")
    retry_at: str | None = Field(default=None, description="No worker is started before then")
    open: bool = Field(
        default=False, description="Whether the breaker is open: then one worker at a time tries after each pause"
    )
    reason: Error | None = Field(default=None, description="Error of the last worker that could not serve")
    no_capacity_since: str | None = Field(
        default=None, description="When Batch first found no instance; reset when a worker starts or none is needed"
    )
    job_definition: str | None = Field(
        default=None, description="Job definition of the workers that the breaker has counted"
    )
    kills: int = Field(default=0, description="Consecutive waves of workers that were killed while they started")
    counted_at: dict[str, str] = Field(
        default_factory=dict,
        description="For each cause, and for crashes at work, when a worker that ended for it was last counted",
    )
    crashes_with_several_jobs: int = Field(
        default=0,
        alias="companyDeaths",
        description="Consecutive waves of workers that crashed with several jobs in the engine",
    )
    culprits: list[str] = Field(default_factory=list, description="Ids of jobs that ran alone when their worker died")
    wanted: int = Field(default=0, description="Workers it needed and could start when `scale` last ran")
    seconds_per_unit: float | None = Field(
        default=None, description="Measured seconds that a fully loaded worker takes for a unit of weight"
    )
    waiting_jobs: int = Field(default=0, description="Number of undecided jobs that were planned with a weight")
    waiting_weight: float = Field(default=0, description="Sum of their weights")
    surplus: dict[str, float] = Field(
        default_factory=dict, description="Values of these two totals, jobs and weight, seen while the queue was empty"
    )
    surplus_since: str | None = Field(default=None, description="When these values were first seen")
    cold_start_seconds: float | None = Field(default=None, description="From SubmitJob to a loaded model")

    @property
    def refuses(self) -> bool:
        """Return whether waiting jobs fail with `reason`: no worker can start, and retrying does not help."""
        return self.open and self.reason is not None and not self.reason.retryable

    @property
    def lacks_capacity(self) -> bool:
        """Return whether `reason` is that Batch found no instance, which is no failure and sets no pause."""
        return self.reason is not None and self.reason.code == "NoCapacity" and self.failures == 0 and not self.open


def _pk(pipeline: str) -> str:
    return f"pipeline#{pipeline}"


def _worker(item: dict[str, object]) -> WorkerRow:
    return WorkerRow.model_validate({**item, "error": _error(item.get("error"))})


def _error(text: object) -> Error | None:
    return Error.model_validate_json(text, extra="ignore") if isinstance(text, str) else None


def outage_of(workers: Iterable[WorkerRow]) -> Waiting | None:
    """Return the remote server that jobs wait for, if the worker that left last did so because that was unavailable."""
    left = [worker for worker in workers if worker.state in ("DRAINING", "ENDED")]
    last = max(left, key=lambda worker: worker.last_seen, default=None)
    return None if last is None else last.waiting


class Workers:
    """The rows of one pipeline's workers, and the pipeline's own row."""

    def __init__(self, table: Table, pipeline: str) -> None:
        self._table = table
        self._pipeline = pipeline
        self._pk = _pk(pipeline)

    @property
    def revisions(self) -> Revisions:
        """Return the recorded revisions of the pipeline's models."""
        return Revisions(self._table, self._pipeline)

    @property
    def shortages(self) -> Shortages:
        """Return the times in which AWS had no instance for the pipeline's workers."""
        return Shortages(self._table, self._pipeline)

    def list(self) -> list[WorkerRow]:
        """Return all workers, including those that ended less than a day ago."""
        return [_worker(item) for item in self._table.query(self._pk, "worker#")]

    def get(self, worker: str) -> WorkerRow | None:
        item = self._table.get(self._pk, f"worker#{worker}")
        return None if item is None else _worker(item)

    def submitted(self, worker: str, job_definition: str) -> None:
        """Note that the worker was submitted. What the worker may have written itself before is kept."""
        self._table.update(
            self._pk,
            f"worker#{worker}",
            "SET #worker = :worker, #submittedAt = :now, #jobDefinition = :definition, "
            "#state = if_not_exists(#state, :submitted), #lastSeen = if_not_exists(#lastSeen, :now), "
            "#stages = if_not_exists(#stages, :none)",
            {"worker": worker, "now": now(), "definition": job_definition, "submitted": "SUBMITTED", "none": {}},
        )

    def started(self, worker: str) -> WorkerRow:
        """Note that the worker's process has started. The returned row says whether it was already asked to leave."""
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
        """Note that the worker serves: its model is loaded, or it received a job while it was leaving."""
        expression = "SET #state = :ready, #lastSeen = :now, #stages.#modelLoaded = :now REMOVE #waiting"
        return self._set(worker, expression, ready="READY")

    def loaded(
        self, worker: str, model: str, revision: str, commit: str, guardrails: Mapping[str, str] | None = None
    ) -> None:
        """Record which models the worker has loaded. `scale` asks it to leave if another commit is recorded.

        `guardrails` has the commit of each model of its guardrails.
        """
        self._set(
            worker,
            "SET #model = :model, #revision = :revision, #commit = :commit, #guardrails = :guardrails",
            model=model,
            revision=revision,
            commit=commit,
            guardrails=dict(guardrails or {}),
        )

    def seen(self, worker: str, completed: int, server_answers: bool = False) -> WorkerRow:
        """Note that the worker is alive. The returned row says whether it must drain."""
        expression = "SET #lastSeen = :now, #completed = :completed, #serverAnswers = :answers"
        return self._set(worker, expression, completed=completed, answers=server_answers)

    def alone_with(self, worker: str, job_id: str) -> None:
        """Record the job that runs alone in the engine now. If the worker dies, this job counts as the cause."""
        self._set(worker, "SET #aloneWith = :job", job=job_id)

    def began_several_jobs(self, worker: str) -> None:
        """Record that several jobs run at once now. If the worker dies, each of them is a suspect."""
        self._set(worker, "SET #inCompany = :yes", yes=True)

    def draining(self, worker: str, waiting: Waiting | None = None) -> WorkerRow:
        """Mark the worker as DRAINING: it ends unless its last poll finds a job, so that `scale` does not count on it.

        The returned row says whether it was asked to stay (`keep`): then `scale` still counts on it. `waiting` is given
        by a worker that leaves because a server is away.
        """
        expression = "SET #state = :draining, #lastSeen = :now, #waiting = :waiting"
        waits = None if waiting is None else waiting.model_dump(by_alias=True)
        return self._set(worker, expression, draining="DRAINING", waiting=waits)

    def keep(self, worker: str, keep: bool) -> None:
        """Ask a worker to stay even without work, or, with `keep` False, to leave then as usual.

        Raises ConditionFailed where it has no row: a new one would count as a worker.
        """
        self._set(worker, "SET #keep = :keep", "attribute_exists(pk)", keep=keep)

    def must_drain(self, worker: str) -> None:
        """Ask a worker to leave once it has finished the jobs in hand. Raises ConditionFailed where it has no row."""
        self._set(worker, "SET #mustDrain = :yes", "attribute_exists(pk)", yes=True)

    def ended(
        self, worker: str, error: Error | None = None, completed: int | None = None, cause: Cause | None = None
    ) -> bool:
        """Note that the worker has ended, and why. Returns False if that was noted before."""
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

    def counted(self, worker: str) -> None:
        """Note that the breaker has counted this worker's success or failure."""
        self._set(worker, "SET #judged = :yes", yes=True)

    def pipeline(self) -> PipelineRow:
        """Return the pipeline's own row; one with defaults if there is none yet."""
        item = self._table.get(self._pk, "pipeline") or {}
        return PipelineRow.model_validate({**item, "reason": _error(item.get("reason"))})

    def measured(self, seconds_per_unit: float | None = None, cold_start_seconds: float | None = None) -> None:
        """Record the measured pace or cold start of a worker; each replaces the last one."""
        measurements = {"secondsPerUnit": seconds_per_unit, "coldStartSeconds": cold_start_seconds}
        values = {name: value for name, value in measurements.items() if value is not None}
        changes = ", ".join(f"#{name} = :{name}" for name in values)
        self._table.update(self._pk, "pipeline", f"SET {changes}", values)

    def note_surplus(self, jobs: int, weight: float, since: str | None) -> None:
        """Record the totals of waiting work that are left while the queue is empty; `since` is None if they are 0."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #surplus = :totals, #surplusSince = :since",
            {"totals": {"jobs": jobs, "weight": weight}, "since": since},
        )

    def subtract_surplus(self, jobs: int, weight: float) -> None:
        """Subtract a surplus from the totals of waiting work. Jobs that are planned at this moment stay counted."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #surplusSince = :none ADD #waitingJobs :jobs, #waitingWeight :weight",
            {"jobs": -jobs, "weight": -weight, "none": None},
        )

    def wanted(self, workers: int) -> None:
        """Record how many workers the pipeline needs and can start, for others that share its vCPUs."""
        self._table.update(self._pk, "pipeline", "SET #wanted = :wanted", {"wanted": workers})

    def set_breaker(self, breaker: PipelineRow) -> None:
        """Write the breaker's part of the row. Only `scale` calls it, and never concurrently."""
        self._table.update(
            self._pk,
            "pipeline",
            "SET #failures = :failures, #retryAt = :retryAt, #open = :open, #reason = :reason, #culprits = :culprits, "
            "#companyDeaths = :companyDeaths, #kills = :kills, #countedAt = :countedAt, "
            "#jobDefinition = :jobDefinition, #noCapacitySince = :noCapacitySince",
            {
                "failures": breaker.failures,
                "retryAt": breaker.retry_at,
                "open": breaker.open,
                "reason": None if breaker.reason is None else breaker.reason.model_dump_json(),
                "culprits": breaker.culprits,
                "companyDeaths": breaker.crashes_with_several_jobs,
                "kills": breaker.kills,
                "countedAt": breaker.counted_at,
                "jobDefinition": breaker.job_definition,
                "noCapacitySince": breaker.no_capacity_since,
            },
        )

    def _set(self, worker: str, expression: str, condition: str | None = None, **values: object) -> WorkerRow:
        time = {"now": now()} if ":now" in expression else {}
        return _worker(self._table.update(self._pk, f"worker#{worker}", expression, {**time, **values}, condition))
