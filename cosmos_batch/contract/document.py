"""The result document of a reasoner. Its first nine fields are those of VAMS's own Cosmos pipelines."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from cosmos_batch.catalogue.pipelines import ATTRIBUTION
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.result import Usage
from cosmos_batch.contract.s3 import S3Uri

_FRAME_TIMES = re.compile(r'"frameTimes": \[[^\]]*\]')
JOB_LOGS_LIMIT = 64 * 1024  # bytes of UTF-8


def _short(text: str) -> str:
    if len(text.encode()) > JOB_LOGS_LIMIT:
        raise ValueError(f"has more than {JOB_LOGS_LIMIT:,} bytes of UTF-8")
    return text


JobLogs = Annotated[
    str, AfterValidator(_short), Field(description="The engine's start-up lines and this request's own, 64 KiB at most")
]


class MoreInput(Model):
    """A further file of a request, after the first one."""

    input_file: str = Field(description="The file's name alone")
    input_uri: S3Uri | None = Field(default=None, description="Where it lies; None in documents of earlier releases")
    input_version_id: str | None


class ReasonerDocument(Model):
    """The document, which is written as JSON to `<prefix>/<relative dir>/<inputStem>_CosmosReason_<timestamp>.json`."""

    model: str = Field(
        description="Hugging Face id; or the folder's name of a checkpoint given by path; or, of an endpoint, the "
        "model that was asked of the server"
    )
    model_size: str = Field(
        description="Size of that model, such as 2B; 'unknown' if neither the catalogue nor its name tells"
    )
    input_file: str = Field(description="The file's name alone")
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC")
    system_prompt: str
    user_prompt: str = Field(
        description="The caller's own words; without any, NVIDIA's default question, or nothing beside a task"
    )
    result: str = Field(description="The model's answer: clean text")
    job_logs: JobLogs
    reasoning: str | None = Field(default=None, description="The model's reasoning, when it came separately")
    notes: list[str] = Field(
        default_factory=list, description="What a reader must know, such as that a long video was sampled down"
    )
    frame_times: list[float] = Field(
        default_factory=list,
        description="Seconds of the frames that the model saw of the first video; nothing for images, and in documents "
        "of earlier releases",
    )
    data: Any = Field(default=None, description="The answer parsed, where a task or a JSON Schema asked for that")
    data_error: str | None = Field(default=None, description="Why `data` is null: the answer does not fit the schema")
    input_uri: S3Uri | None = Field(
        default=None, description="Where the file lies; None in documents of earlier releases"
    )
    question: str | None = Field(
        default=None,
        description="What the model was asked: the caller's words in the wording of the task, with the form of the "
        "answer that a schema or reasoning asks for; None in documents of earlier releases",
    )
    job_id: str
    pipeline: str
    revision: str = Field(description="Commit of the model")
    engine: str = Field(description="Name and version")
    lossy: list[str] = Field(
        default_factory=list,
        description="Modes in which the engine was faster and changed the answer, such as fp8; none by default",
    )
    finish_reason: Literal["stop", "length"]
    usage: Usage
    timings: dict[str, float] = Field(description="Seconds by phase")
    parameters: Parameters
    input_version_id: str | None
    more_inputs: list[MoreInput] = Field(default_factory=list, description="Seen after the first file, in this order")
    batch_job_id: str = Field(description="The worker's Batch job")
    attribution: str | None = Field(
        default=ATTRIBUTION, description="What NVIDIA's licence asks for; absent where the model is not NVIDIA's"
    )

    def to_json(self) -> str:
        """Return indented JSON without fields that do not apply, such as `data` without a JSON Schema."""
        optional = ("reasoning", "notes", "frame_times", "data_error", "input_uri", "question", "lossy", "attribution")
        exclude = {name for name in optional if not getattr(self, name)}
        if self.parameters.json_schema is None:
            exclude.add("data")
        return _FRAME_TIMES.sub(_on_one_line, self.model_dump_json(indent=2, exclude=exclude))


def _on_one_line(frame_times: re.Match[str]) -> str:
    return " ".join(frame_times[0].split()).replace("[ ", "[").replace(" ]", "]")
