"""The job that `plan` writes and a worker executes, and the message that carries it."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from cosmos_batch.contract.base import Model, Time
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.origin import Origin
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.s3 import S3Location, S3Uri

# The version of the messages of the state machine, one for each execution. 4 added `Job.planned_for`.
SCHEMA_VERSION: Final = 4
# The version of the messages of `feed`, one for each item of a run, and the latest that a worker reads. It returns a
# job of a higher version to the queue and drains. 5 has no task token, and names the run instead.
ITEM_SCHEMA_VERSION: Final = 5

# The error code with which a worker answers the task token of a job whose `planned_for` is not the identity of the
# deployed workers. The state machine then calls `plan` again.
PLAN_AGAIN: Final = "PlanAgain"
# The error names with which Step Functions says that SQS did not take a message: SQS could not be reached, or it
# answered with a fault of its own, with throttling or with a refusal, which only the cause tells apart.
SQS_UNREACHABLE: Final = "SQS.SdkClientException"
SQS_FAILED: Final = "SQS.AmazonSQSException"


class InputFile(Model):
    """An S3 object, fixed to one version."""

    bucket: str
    key: str
    version_id: str | None = Field(description="None where the bucket keeps no versions; then `etag` must match")
    etag: str = Field(description="As S3 sends it, with its quotes")
    size: int = Field(gt=0, description="Bytes")

    @property
    def name(self) -> str:
        """Return the file's name without its folders."""
        return self.key.rsplit("/", 1)[-1]

    @property
    def uri(self) -> str:
        """Return the file's S3 URI."""
        return S3Location(self.bucket, self.key).uri


class OutputKey(Model):
    """The key of a document, reserved for one job."""

    bucket: str
    key: str


class Job(Model):
    """A question about one file or several files together, or a generation; with one document for its result."""

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
    generation: Generation | None = Field(default=None, description="What to generate, for a generator")
    origin: Origin | None = Field(default=None, description="The earlier generation, if it is repeated")
    document: OutputKey = Field(description="Location of the result document")
    timestamp: str = Field(pattern=r"^\d{8}-\d{6}$", description="Timestamp of the document in UTC, part of its key")
    created_at: Time = Field(description="Start of the execution")
    deadline: Time
    invalidate_model: bool = Field(description="A stored model older than `created_at` must not answer this job")
    planned_for: Identity | None = Field(
        default=None,
        description="Deployment that it was planned for; None in schema version 3, whose jobs any worker takes",
    )

    @property
    def asks_more_than_the_caller(self) -> bool:
        """Return whether the question differs from the caller's own words."""
        return self.user_prompt is not None or self.user_prompt_uri is not None

    @property
    def inputs(self) -> list[InputFile]:
        """Return all files, in the order in which the model sees them."""
        return [*([] if self.input is None else [self.input]), *self.more_inputs]

    def label(self, source: InputFile) -> str:
        """Return the prefix of a note about one of several files; "" if the job has only one."""
        return f"{source.name}: " if self.more_inputs else ""

    @property
    def subject(self) -> str:
        """Return the file names for a person to read, or "the prompt" for a generation from text."""
        if not self.inputs:
            return "the prompt"
        first, *others = self.inputs
        return first.name + (f" and {len(others)} more" if others else "")


class JobMessage(Model):
    """The body of a message in a pipeline's queue."""

    schema_version: Literal[2, 3, 4, 5] = Field(description="SCHEMA_VERSION or ITEM_SCHEMA_VERSION of the writer")
    task_token: str | None = Field(default=None, description="Of the execution that waits; None for an item of a run")
    run: str | None = Field(default=None, description="Id of the run that sent it, if it is an item of one")
    table_only: bool = Field(default=False, description="The run collects the document, and it is written nowhere else")
    job: Job

    @model_validator(mode="after")
    def _has_one_caller(self) -> Self:
        if (self.task_token is None) == (self.run is None):
            raise ValueError("has either a task token or a run")
        return self
