"""A run: one request over many files, its shards and items, and the lines and the summary that it leaves.

A run's objects lie below `runs/<run id>/` in the state bucket (`cosmos_batch.contract.run_keys`):

- `claim.json`, a `RunClaim`: which start writes the other objects.
- `run.json`, a `RunRequest`: what was asked for all items.
- `shards.json`, a list of `ShardRef`: what the Distributed Map of Step Functions reads.
- `shards-<pipeline>.json`, what it reads in a run with several pipelines, of which each has a map of its own.
- `shards/<shard>.jsonl`, one `RunItem` a line.
- `estimate.json`, an `ItemEstimate`: what the plan expects of an item. A run over a prefix, without a plan, has none.
- `planned/<execution>/<shard>.jsonl`, one `PlannedItem` a line: what was made of the items when they were fed.
- `results/<shard>.jsonl` and `errors/<shard>.jsonl`, one `ResultLine` a line, written when a shard has ended.
- `summary.json`, a `RunSummary`, written when the run has ended.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SecretStr

from cosmos_batch.contract.base import Model, Time
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Text
from cosmos_batch.contract.result import Output, Usage
from cosmos_batch.contract.s3 import S3Uri

RUN_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
SHARD_ID = r"^\d{5}$"
ORIGIN_LIMIT = 1024  # characters
SHARD_ITEMS = 250  # the most items that one shard has

EVENT_SOURCE, RUN_ENDED = "cosmos.batch", "Cosmos Batch Run Ended"
"""Source and detail type of the event about a run's end, whose detail is a `RunSummary`."""

TABLE_ONLY = "table"
"""The key of the document of an item whose answer is written only into the run's tables."""

ITEM_CANCELLED = Error(
    code="Cancelled",
    message="The run was cancelled before this item was done.",
    remedy="Start the run again: what is done already costs nothing.",
)
"""The error of an item that had not ended when its run was cancelled."""

RunId = Annotated[str, Field(pattern=RUN_ID, description="Name of a run, part of its objects' keys")]
RunState = Literal["STARTING", "RUNNING", "HELD", "SUCCEEDED", "CANCELLED", "FAILED"]
"""HELD: it waits for a person, because its budget is spent or its pipeline's breaker is open; `resume` goes on.
SUCCEEDED: every item has ended, some perhaps with an error. FAILED: the run itself could not go on."""


class RunItem(Model):
    """One request of a run. The run's request says what an absent field is."""

    id: str = Field(min_length=1, max_length=1200, description="Unique in the run; the caller's, or the input's key")
    input: S3Uri | None = Field(default=None, description="The file; None where a generation starts from text")
    version_id: str | None = Field(default=None, description="S3 version of the input, if one was named or listed")
    etag: str | None = Field(default=None, description="Of the input when it was listed; None if it was not listed")
    size: int | None = Field(default=None, ge=0, description="Bytes of the input when it was listed")
    more_etags: list[str | None] = Field(
        default_factory=list, description="Of the files of `parameters.moreInputs`, as they were before the start"
    )
    prompt: Text | None = None
    system_prompt: Text | None = None
    parameters: Parameters | None = None
    generation: GenerationParameters | None = None
    output: S3Uri | None = Field(
        default=None, description="Prefix for its results; as the run's request says if absent"
    )
    variant: dict[str, JsonValue] = Field(
        default_factory=dict, description="What tells it from the other items of its input in a sweep: prompt, seed"
    )


class ShardRef(Model):
    """One entry of the lists of shards: the input of one child of the Distributed Map."""

    run: RunId
    shard: str = Field(pattern=SHARD_ID)
    pipeline: str
    items: int = Field(ge=1, le=SHARD_ITEMS)


class RunRequest(Model):
    """The settings of a run: what every item asks if it does not say otherwise, and how the run itself behaves."""

    id: RunId
    pipelines: list[str] = Field(min_length=1, description="Each item is answered by each of them")
    prompt: Text | None = None
    system_prompt: Text | None = None
    parameters: Parameters = Field(default_factory=Parameters)
    generation: GenerationParameters | None = None
    output: S3Uri | None = Field(default=None, description="Prefix for the documents; beside the inputs if absent")
    input_root: S3Uri | None = Field(default=None, description="Prefix whose folders are mirrored below `output`")
    table_only: bool = Field(default=False, description="Write no document beside the inputs, only the tables")
    max_dollars: float | None = Field(default=None, gt=0, description="Feed no shard once this is spent or in flight")
    deadline: Time | None = Field(default=None, description="Items that have not ended by then fail as TimedOut")
    retry_failed: bool = Field(
        default=False,
        description="Ask again what failed in an earlier run, whatever the error; otherwise only where it may pass",
    )
    invalidate_model: bool = Field(
        default=False, description="Drop stored copies of the model that are older than the execution"
    )
    caller: Text | None = Field(default=None, max_length=1024)
    origin: str | None = Field(
        default=None, max_length=ORIGIN_LIMIT, description="Inputs as the caller named them, for people"
    )


class ItemEstimate(Model):
    """The GPU time that a run's plan expects of an item, by which the run's budget is kept until items have ended."""

    gpu_seconds: dict[str, float] = Field(
        default_factory=dict, description="Of a pipeline's GPUs for one item, by the pipeline"
    )


class RunClaim(Model):
    """A claim of a run's name. The start that wrote this object first has the name."""

    digest: str = Field(description="SHA-256 of what the start asks")


class PlannedItem(Model):
    """An item and what became of it when it was fed: a job, or the error for which it was refused."""

    item: RunItem
    job: Job | None = None
    error: Error | None = None


class RunStart(Model):
    """The input of an execution that begins a run, or goes on with one: `{"run": {"id": "..."}}`."""

    id: RunId
    max_dollars: float | None = Field(default=None, gt=0, description="Replaces the run's budget")
    finish_cancelled: bool = Field(
        default=False, description="Feeds nothing and only finishes the run, which was cancelled while it was held"
    )
    callback: SecretStr | None = Field(
        default=None, strict=False, exclude=True, description="Task token to answer once with the summary"
    )


class RunPrefix(Model):
    """A run as a person types it in the Step Functions console: `{"run": {"prefix": "s3://...", "prompt": "..."}}`."""

    prefix: S3Uri
    pipeline: str | None = Field(default=None, description="The only enabled reasoner if absent")
    prompt: Text | None = None
    parameters: Parameters = Field(default_factory=Parameters)
    output: S3Uri | None = None
    max_dollars: float | None = Field(default=None, gt=0)
    callback: SecretStr | None = Field(
        default=None, strict=False, exclude=True, description="Task token to answer once with the summary"
    )


class ResultLine(Model):
    """One line of `results/` or `errors/`: the end of one item. Either `error` is set or an answer or `outputs`."""

    id: str
    job_id: str
    pipeline: str
    model: str | None = None
    revision: str | None = None
    input: S3Uri | None = None
    prompt: str | None = None
    variant: dict[str, JsonValue] = Field(default_factory=dict)
    answer: str | None = None
    reasoning: str | None = None
    data: Any = None
    outputs: list[Output] = Field(default_factory=list)
    document: S3Uri | None = None
    notes: list[str] = Field(default_factory=list)
    usage: Usage | None = None
    seconds: float | None = Field(default=None, ge=0, description="From received to committed")
    gpu_seconds: float | None = Field(default=None, ge=0, description="Share of a GPU's time that it took")
    dollars: float | None = Field(default=None, ge=0, description="Price of those GPU seconds")
    reused: bool = Field(default=False, description="Answered by an earlier run, at no cost in this one")
    error: Error | None = None


class RunSummary(Model):
    """The end of a run, in numbers."""

    id: RunId
    state: RunState
    items: int
    succeeded: int
    failed: int
    cancelled: int
    reused: int
    errors_by_code: dict[str, int] = Field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    gpu_seconds: float = 0.0
    dollars: float = Field(default=0.0, description="Price of the GPU seconds; the rest of the bill is not in it")
    seconds_quantiles: dict[str, float] = Field(default_factory=dict, description="Of one item: p50, p90, p99, max")
    started_at: Time
    ended_at: Time
    reason: str | None = Field(default=None, description="Why it was held, cancelled or failed, in a sentence")
