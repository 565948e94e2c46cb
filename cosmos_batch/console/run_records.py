"""The records of runs that the page receives, and the requests that it sends to act on runs."""

from typing import Literal

from pydantic import Field

from cosmos_batch.console.records import ChosenDocuments, Row
from cosmos_batch.contract.base import Model

Action = Literal["cancel", "resume", "retry"]


class RunLine(Model):
    """A run in the list of runs: its state, its numbers of items, and what it has cost."""

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
    """A worker of a run, and what it does at this moment."""

    id: str
    pipeline: str
    doing: str = Field(description="Such as: loading the model")
    since: str | None = Field(description="ISO 8601, UTC")
    completed: int = Field(description="The number of items that it has answered")


class Blocker(Model):
    """The reason why no worker of a pipeline serves."""

    pipeline: str
    code: str
    message: str
    remedy: str
    next_try: str


class RunActivity(Model):
    """The activity of a run at this moment: its rate, its workers, and what waits."""

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
    """A request for a new run over the failed items of a run, or over the failed ones of some documents."""

    selection: ChosenDocuments | None = None
    max_dollars: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Budget of the new run")


class RetrySize(Model):
    """The number of chosen items that have failed, and would be asked again."""

    items: int


class ResumeRequest(Model):
    """A request to resume a run."""

    max_dollars: float | None = Field(default=None, gt=0, allow_inf_nan=False, description="Another budget")


class Started(Model):
    """A run that was started."""

    run: str
    items: int


class NoContent(Model):
    """The empty body of a request that needs no fields."""


class LogLines(Model):
    """The lines that a worker has logged about an item."""

    lines: list[str]


class ComparedEnd(Model):
    """The end of an item in one of two runs: an answer, files, or the code of an error."""

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
