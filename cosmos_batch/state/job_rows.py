"""The models of a job's row: its attempts, its result, and the items of runs that wait for it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state.run_rows import Watcher
from cosmos_batch.state.table import TableRow

JobState = Literal["PLANNED", "RUNNING", "COMMITTED", "SUCCEEDED", "FAILED", "CANCELLED"]
FINAL: tuple[JobState, ...] = ("SUCCEEDED", "FAILED", "CANCELLED")
Stage = Literal["planned", "received", "started", "inferred", "committed", "written", "calledBack", "reported"]

MESSAGE_LIFE = timedelta(days=9)
"""How long a sent message counts as being in its queue. SQS deletes it a day later."""


def _parsed(result: object) -> object:
    """Return a stored result. Unknown fields are ignored in it, as in the row: newer code may have written them."""
    return Result.model_validate_json(result, extra="ignore") if isinstance(result, str) else result


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


class JobEnd(TableRow):
    """How a job ended, and for which items of runs: the part of its row that is kept when it is done again."""

    state: JobState
    document: str = Field(description="S3 URI of the reserved key")
    winner: str | None = Field(default=None, description="Id of the attempt whose result is the job's")
    result: Annotated[Result | None, BeforeValidator(_parsed)] = Field(default=None, description="Stored as JSON")
    stages: dict[str, str] = Field(default_factory=dict, description="Stage to time (ISO 8601, UTC)")
    watchers: set[str] = Field(default_factory=set, description="Items of runs that wait for it: `Watcher.text`")
    reused_by: set[str] = Field(
        default_factory=set, description="Items of runs that came after its end and take it as their own"
    )
    paid_by: str | None = Field(default=None, description="The run whose item it was first, to which its price counts")
    gpu_seconds: float = Field(default=0.0, description="What all attempts at an item of a run took, as far as known")
    dollars: float = 0.0
    revision: str | None = Field(default=None, description="Commit of the model that answered an item of a run")

    @property
    def items(self) -> int:
        """Return how many items of runs end with this job, or have taken its end as their own."""
        return len(self.watchers) + len(self.reused_by)

    def is_full_for(self, watcher: Watcher, most: int) -> bool:
        """Return whether the end is shared by `most` items already, and `watcher` is none of them."""
        return self.items >= most and not self.concerns(watcher)

    def concerns(self, watcher: Watcher) -> bool:
        """Return whether an item ends with this job, or has taken its end as its own."""
        return watcher.text in self.watchers or watcher.text in self.reused_by

    def stored(self) -> dict[str, Any]:
        """Return the attributes of this end, as `JobRow.earlier` stores them."""
        names = set(JobEnd.model_fields) - {"result"}
        values = self.model_dump(by_alias=True, include=names, exclude_defaults=True)
        return values if self.result is None else {**values, "result": self.result.model_dump_json()}


class JobRow(JobEnd):
    """The row of a job."""

    job_id: str
    pipeline: str
    input: str | None = Field(default=None, description="S3 URI")
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
    give_backs: int = Field(default=0, description="How often a worker that ended or could not serve it gave it back")
    interruptions: int = Field(
        default=0, description="How many of the pauses came after the server may have begun on it"
    )
    worker: str | None = Field(default=None, description="Batch job id of the last worker")
    last_error: Error | None = Field(default=None, description="Error of the last attempt in which the engine failed")
    deadline: str | None = Field(
        default=None, description="The latest deadline of the items that wait for it (ISO 8601, UTC)"
    )
    sent_at: str | None = Field(default=None, description="When the message of an item was put into its queue")
    earlier: list[JobEnd] = Field(default_factory=list, description="Ends before it was done again, the latest last")

    @property
    def is_sent(self) -> bool:
        """Return whether a worker has the job of an item, or its message is in the queue, as far as is known."""
        if self.state != "PLANNED":
            return True
        return self.sent_at is not None and datetime.now(UTC) - datetime.fromisoformat(self.sent_at) < MESSAGE_LIFE

    def end_for(self, watcher: Watcher) -> JobEnd | None:
        """Return the end that an item has, now or since before the job was done again; None while it waits."""
        latest = next((end for end in (self, *reversed(self.earlier)) if end.concerns(watcher)), None)
        return latest if latest is not None and latest.state in FINAL else None


@dataclass(frozen=True)
class ItemFacts:
    """A worker's notes about an attempt at an item: its share of the GPUs' time, its price, and the model's commit."""

    gpu_seconds: float = 0.0
    dollars: float = 0.0
    revision: str | None = None
