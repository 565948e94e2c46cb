"""Models of the rows of runs and of their shards in the state table, and of the ends that are counted in them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self

from pydantic import Field

from cosmos_batch.contract.runs import RunState
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.state.table import TableRow

RUN_KEEP_SECONDS = 365 * 86_400
"""How long the rows of a run, of its shards and of what was fed of it are kept."""

TOKEN_KEEP_SECONDS = (QUEUE_DAYS + 1) * 86_400
"""How long the row of a task token is kept: its state ends after `QUEUE_DAYS`."""

ShardState = Literal["FEEDING", "RUNNING", "ENDED", "SKIPPED"]
"""FEEDING: some of its items may not be in the queue yet. RUNNING: all are. SKIPPED: nobody waits for it, because the
run was held or cancelled before all of its items had ended."""
Outcome = Literal["succeeded", "failed", "cancelled"]


class RunRow(TableRow):
    """The row of a run."""

    id: str
    state: RunState
    pipelines: list[str] = Field(default_factory=list)
    items: int = 0
    shards: int = 0
    started_at: str = Field(description="ISO 8601, UTC")
    ended_at: str | None = Field(default=None, description="When its summary was written; a run that is held has one")
    execution_arn: str | None = Field(default=None, description="The latest execution that feeds it")
    max_dollars: float | None = None
    deadline: str | None = Field(default=None, description="Items that have not ended by then fail (ISO 8601, UTC)")
    reason: str | None = Field(default=None, description="Why it is held, cancelled or failed, in a sentence")
    caller: str | None = None
    origin: str | None = Field(default=None, description="Inputs as the caller named them, for people")
    item_gpu_seconds: dict[str, float] = Field(
        default_factory=dict, description="What the plan expects an item of each pipeline to take"
    )
    reservations: dict[str, float] = Field(
        default_factory=dict, description="The shards that are being fed or are in flight, and their expected dollars"
    )
    charged_dollars: float = Field(
        default=0.0, description="What counts against the budget: the reservations, and what other shards have cost"
    )

    @property
    def stops(self) -> bool:
        """Return whether none of its items is to be computed any more."""
        return self.state in ("CANCELLED", "FAILED")

    @property
    def has_reservations(self) -> bool:
        """Return whether the stored row has reservations, which an earlier release did not write."""
        return "reservations" in self.model_fields_set


class ShardRow(TableRow):
    """The row of a shard. `ended` holds numbers of items, from 0, and is emptied when it ends.

    Each end of an item writes it, so what is large and does not change then lies elsewhere, as the task tokens do.
    """

    run: str
    shard: str
    pipeline: str
    items: int
    state: ShardState
    ended: set[int] = Field(default_factory=set)
    succeeded: int = Field(default=0, description="Items with an answer, reused ones included")
    failed: int = 0
    cancelled: int = 0
    reused: int = 0
    gpu_seconds: float = 0.0
    dollars: float = 0.0
    expected_dollars: float = Field(default=0.0, description="Estimated price of all its items")
    jobs: int = Field(default=0, description="Number of its jobs in the pipeline's totals of waiting work")
    weight: float = Field(default=0.0, description="Sum of their weights")
    fed_jobs: int | None = Field(default=None, description="Number of its jobs when it was fed first, before any hold")
    token_ids: set[str] = Field(default_factory=set, description="Of the task tokens of the states that wait for it")
    task_tokens: set[str] = Field(default_factory=set, description="Such tokens, as an earlier release has kept them")
    settled_dollars: float = Field(
        default=0.0, description="Its part of the run's `charged_dollars` while not reserved"
    )
    planned_by: str | None = Field(default=None, description="Execution whose plan of its items was written last")
    errors: dict[str, int] = Field(default_factory=dict, description="Failed items by code, once it has ended")
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: dict[str, int] = Field(
        default_factory=dict, description="Items by their duration: see `lambdas.runs.duration_histogram`"
    )
    counted_at: str | None = Field(default=None, description="When it last changed (ISO 8601, UTC)")

    @property
    def complete(self) -> bool:
        """Return whether every item has ended."""
        return self.done >= self.items

    def is_opened_by(self, execution: str) -> bool:
        """Return whether an execution that goes on with the run feeds it again: another ended it with cancelled items.

        All its items are counted anew then. `execution` is a name.
        """
        return self.state == "ENDED" and self.cancelled > 0 and self.planned_by != execution

    @property
    def in_flight(self) -> bool:
        """Return whether it is being fed, or has items in the queue or with workers."""
        return self.state in ("FEEDING", "RUNNING")

    @property
    def is_awaited(self) -> bool:
        """Return whether a state waits for it, as far as is known."""
        return bool(self.token_ids or self.task_tokens)

    @property
    def is_half_parked(self) -> bool:
        """Return whether it was parked by a process that may have ended before it answered the tokens."""
        return self.state == "SKIPPED" and self.is_awaited

    @property
    def done(self) -> int:
        """Return the number of items that have ended."""
        return self.succeeded + self.failed + self.cancelled


def run_pk(run: str) -> str:
    """Return the partition key of the rows of a run and of its shards."""
    return f"run#{run}"


def token_id(task_token: str) -> str:
    """Return a short digest of a task token, which a shard's row lists in place of the token of a kilobyte or two."""
    return hashlib.sha256(task_token.encode()).hexdigest()[:16]


class Watcher(NamedTuple):
    """An item of a run that waits for a job: what the set `watchers` of the job's row contains."""

    run: str
    shard: str
    item: int

    @property
    def text(self) -> str:
        return f"{self.run}/{self.shard}/{self.item}"

    @classmethod
    def parse(cls, text: str) -> Self:
        run, shard, item = text.split("/")
        return cls(run, shard, int(item))


@dataclass(frozen=True)
class ItemEnd:
    """How an item ended, and what it cost in its run."""

    outcome: Outcome
    gpu_seconds: float = 0.0
    dollars: float = 0.0
    reused: bool = False


@dataclass
class ShardFacts:
    """Sums over the results of a shard, which the summary of its run adds up."""

    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    reused: int = 0
    gpu_seconds: float = 0.0
    dollars: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: dict[str, int] = field(default_factory=dict)
