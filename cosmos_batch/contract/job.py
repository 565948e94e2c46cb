"""What a worker gets: nothing is left to decide."""

from typing import Final, Literal

from pydantic import Field

from cosmos_batch.contract.base import Model, Time
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.s3 import S3Location, S3Uri

# A worker gives back a job whose version is higher than this one and drains; it reads this one and those before.
# 4 added `Job.planned_for`.
SCHEMA_VERSION: Final = 4

# The error with which a worker ends the wait for a job that was planned for another worker than those that are deployed
# now: the state machine then calls `plan` again.
PLAN_AGAIN: Final = "PlanAgain"


class InputFile(Model):
    """One exact state of one S3 object."""

    bucket: str
    key: str
    version_id: str | None = Field(description="None where the bucket keeps no versions; then `etag` must match")
    etag: str = Field(description="As S3 sends it, with its quotes")
    size: int = Field(gt=0, description="Bytes")

    @property
    def name(self) -> str:
        """The file's name alone."""
        return self.key.rsplit("/", 1)[-1]

    @property
    def uri(self) -> str:
        """Where the file lies."""
        return S3Location(self.bucket, self.key).uri


class OutputKey(Model):
    """A final key, reserved for one job."""

    bucket: str
    key: str


class Job(Model):
    """One question about one file, or several that are looked at together, or one generation; one place for the end."""

    job_id: str = Field(description="The name of the execution")
    execution_arn: str
    pipeline: str
    input: InputFile | None = Field(description="None where a generation starts from text")
    more_inputs: list[InputFile] = Field(
        default_factory=list,
        description="What the model sees after it, in order; of a generation, control videos and then actions",
    )
    prompt: str | None = Field(description="The question, unless it is a long one; a generation has its own")
    prompt_uri: S3Uri | None = Field(description="Where the question lies, if it is a long one")
    user_prompt: str | None = Field(
        default=None, description="The caller's own words, where the question is not these alone, unless they are long"
    )
    user_prompt_uri: S3Uri | None = Field(default=None, description="Where those words lie, if they are long")
    system_prompt: str
    parameters: Parameters
    generation: Generation | None = Field(default=None, description="What to make, of a generator")
    origin: Origin | None = Field(default=None, description="How it was made before, if it is made again")
    document: OutputKey = Field(description="Where the document goes")
    timestamp: str = Field(pattern=r"^\d{8}-\d{6}$", description="Of the document, UTC; part of its key")
    created_at: Time = Field(description="Start of the execution")
    deadline: Time
    invalidate_model: bool = Field(description="A stored model older than `created_at` must not answer this job")
    planned_for: Identity | None = Field(
        default=None, description="What has to answer it; None in a job of schema version 3, which any worker takes"
    )

    @property
    def asks_more_than_the_caller(self) -> bool:
        """Whether the question holds more than the caller's own words, or other ones."""
        return self.user_prompt is not None or self.user_prompt_uri is not None

    @property
    def inputs(self) -> list[InputFile]:
        """All files, in the order in which the model sees them."""
        return [*([] if self.input is None else [self.input]), *self.more_inputs]

    def label(self, source: InputFile) -> str:
        """What stands before a word about one of several files; nothing before one about the only file."""
        return f"{source.name}: " if self.more_inputs else ""

    @property
    def subject(self) -> str:
        """What it is about, for a person."""
        if not self.inputs:
            return "the prompt"
        first, *others = self.inputs
        return first.name + (f" and {len(others)} more" if others else "")


class JobMessage(Model):
    """The body of a message in a pipeline's queue."""

    schema_version: Literal[2, 3, 4] = Field(description="SCHEMA_VERSION of who wrote it")
    task_token: str
    job: Job
