"""Runs as the page receives them, and what it sends to act on them."""

from typing import Literal

from pydantic import Field

from cosmos_batch.console.records import ChosenDocuments, Row
from cosmos_batch.contract.base import Model

Action = Literal["cancel", "resume", "retry"]


class RunLine(Model):
    """How far a run is, and what it has cost."""

    id: str
    state: str = Field(description="As a person reads it, such as RUNNING or NOT BEGUN")
    over: bool = Field(description="Whether it has ended, or is held until a person resumes it")
    pipelines: list[str]
    origin: str = Field(description="Its inputs as the caller named them")
    started_at: str | None = Field(description="ISO 8601, UTC")
    ended_at: str | None
    items: int
    succeeded: int
    failed: int
    cancelled: int
    reused: int
    in_flight: int
    waiting: int
    gpu_seconds: float
    dollars: float
    max_dollars: float | None
    reason: str | None = Field(description="Why it is held, cancelled or failed, in a sentence")


class RunList(Model):
    """The latest runs."""

    runs: list[RunLine]
    has_more: bool


class WorkerLine(Model):
    """What a worker does."""

    id: str
    pipeline: str
    doing: str = Field(description="Such as: loading the model")
    since: str | None = Field(description="ISO 8601, UTC")
    completed: int = Field(description="The number of items that it has answered")


class Blocker(Model):
    """Why no worker of a pipeline serves."""

    pipeline: str
    code: str
    message: str
    remedy: str
    next_try: str


class RunActivity(Model):
    """What happens in a run at this moment."""

    items_per_second: float = Field(description="Measured over the last minutes; 0 while it is not known")
    seconds_left: float | None
    workers: list[WorkerLine]
    blockers: list[Blocker]
    waits: list[str] = Field(description="What waits, and for what, in sentences")


class RunOverview(Model):
    """All that the page shows of a run besides its items."""

    run: RunLine
    prompt: str
    quantiles: dict[str, float] = Field(description="Seconds of one item, once the run has ended")
    actions: list[Action] = Field(description="What a person can do with it now")
    live: RunActivity | None = Field(description="None once the run is over")


class RetryRequest(Model):
    """What to ask again in a new run: everything that failed, or what failed among some documents."""

    selection: ChosenDocuments | None = None
    max_dollars: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Budget of the new run")


class RetrySize(Model):
    """How many of the chosen items have failed, and would be asked again."""

    items: int


class ResumeRequest(Model):
    """How to go on with a run."""

    max_dollars: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Another budget")


class Started(Model):
    """A run that was started."""

    run: str
    items: int


class NoContent(Model):
    """A request without anything to say."""


class LogLines(Model):
    """What a worker has logged about an item."""

    lines: list[str]


class ComparedEnd(Model):
    """How an item has ended in one of two runs: with an answer, with files, or with the code of an error."""

    item: str = Field(description="Its id in its run")
    answer: str | None
    error: str | None
    row: Row | None = Field(default=None, description="Its row in the grid of its run, with its media")


class ComparedPair(Model):
    """An item that two runs answer differently. An end is None where the run has no such item."""

    item: str
    input: str
    change: str
    first: ComparedEnd | None
    second: ComparedEnd | None


class ComparedRuns(Model):
    """Two runs side by side."""

    counts: dict[str, int] = Field(description="Items by what has changed")
    agreement: float | None = Field(
        description="Share of those with the same answer among the items of both runs that have one in either"
    )
    pairs: list[ComparedPair] = Field(description="The first of those that differ")
