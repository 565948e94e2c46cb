"""The results that an engine returns to its worker, and a worker to the state machine."""

from typing import Any, Literal

from pydantic import Field, JsonValue

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.contract.generation.outputs import Role
from cosmos_batch.contract.s3 import S3Uri

# The limit of a callback's output. Step Functions accepts 256 KiB, but keeps it in each execution's history.
RESULT_LIMIT = 8 * 1024


class Usage(Model):
    """The numbers of tokens of a request."""

    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class Answer(Model):
    """The answer of a reasoner's engine to one job."""

    text: str = Field(description="The answer, clean: no special tokens, no reasoning")
    reasoning: str | None = Field(default=None, description="What the model thought, where it said so separately")
    finish_reason: Literal["stop", "length"]
    usage: Usage
    timings: dict[str, float] = Field(description="Seconds by phase, such as decode and generate")
    logs: list[str] = Field(default_factory=list, description="Lines about this job and no other")
    notes: list[str] = Field(
        default_factory=list, description="What a reader must know, such as that a long video was sampled down"
    )
    frame_times: list[float] = Field(
        default_factory=list, description="Seconds of the frames that the model saw of the first video"
    )
    zero_at: float = Field(
        default=0.0, description="The second of a video from which the model counted: that where a clip of it begins"
    )
    data: Any = Field(default=None, description="The answer parsed, where one that fits a JSON Schema was asked for")
    data_error: str | None = Field(default=None, description="Why there is no `data`, where it was asked for")


class GeneratedFile(Model):
    """A file that a generation wrote."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", description="In the job's working directory")
    role: Role


class GeneratorOutput(Model):
    """The result of a generator's engine for one job."""

    files: list[GeneratedFile] = Field(min_length=1)
    generation: Generation = Field(
        description="As it was made: prompt as it was sent, size, frames, rate and sequence length with nothing open"
    )
    timings: dict[str, float] = Field(description="Seconds by phase, such as encode, denoise and decode")
    logs: list[str] = Field(default_factory=list, description="Lines about this job and no other")
    notes: list[str] = Field(default_factory=list, description="What a reader must know, such as faces blurred")
    checks: Checks = Field(default_factory=Checks, description="Verdicts of the guardrails")
    facts: dict[str, JsonValue] = Field(
        default_factory=dict, description="How, as far as it is the engine's own: scheduler, plan, peak of memory"
    )


class Output(Model):
    """A file that was written to S3."""

    uri: S3Uri
    size: int = Field(ge=0, description="Bytes")
    content_type: str
    sha256: str | None = Field(default=None, description="Of a generated file's content; an earlier release lacks it")


class Result(Model):
    """The end of a job: either `outputs` or `error` is set."""

    job_id: str
    outputs: list[Output] = Field(default_factory=list, description="At their final keys; the document comes first")
    timings: dict[str, float] = Field(default_factory=dict, description="Seconds by phase")
    usage: Usage | None = None
    error: Error | None = None

    @property
    def succeeded(self) -> bool:
        return self.error is None
