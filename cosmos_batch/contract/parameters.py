"""The parameters of an answer that a caller may set, in a request, VAMS, a file's metadata or the command line."""

import json
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.json_schema import SCHEMA_LIMIT, checked_schema
from cosmos_batch.contract.tasks import TaskName

FPS_LIMIT = 60
FILES_LIMIT = 16  # the most files that one request may have


class Parameters(Model):
    """The parameters of one request. Absent ones have the default of the task, of NVIDIA or of the model."""

    task: TaskName | None = Field(
        default=None, description="Preset of NVIDIA's prompt guides; the prompt is its subject"
    )
    reasoning: bool | None = Field(
        default=None, description="Let the model think first; what it thought comes apart, as `reasoning`"
    )
    max_tokens: int | None = Field(
        default=None, ge=1, le=32_768, description="Longest answer, in tokens, its reasoning included"
    )
    seed: int | None = Field(default=None, ge=0, lt=2**32, description="Sampling seed")
    temperature: float | None = Field(
        default=None, ge=0, le=2, allow_inf_nan=False, description="How freely tokens are drawn; 0 takes the likeliest"
    )
    top_p: float | None = Field(
        default=None,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="Draw from the likeliest tokens that have this probability together",
    )
    top_k: int | None = Field(
        default=None, ge=0, le=1000, description="Number of the likeliest tokens to draw from; 0 for all"
    )
    repetition_penalty: float | None = Field(
        default=None,
        gt=0,
        le=2,
        allow_inf_nan=False,
        description="Above 1, tokens of prompt and answer are less likely",
    )
    presence_penalty: float | None = Field(
        default=None, ge=-2, le=2, allow_inf_nan=False, description="Above 0, tokens of the answer are less likely"
    )
    fps: float | None = Field(
        default=None, gt=0, le=FPS_LIMIT, description="Frames per second that the model sees of a video; 4 by default"
    )
    start: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="Look at a video from this second of it"
    )
    end: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Look at a video up to this second of it"
    )
    long_video: Literal["sampleDown", "refuse"] = Field(
        default="sampleDown",
        description="What to do with a video too long to be seen at `fps`: fewer frames a second and a note, or refuse",
    )
    json_schema: Annotated[dict[str, Any], AfterValidator(checked_schema)] | None = Field(
        default=None,
        description=f"JSON Schema (draft 2020-12, {SCHEMA_LIMIT // 1024} KiB) that the answer must fit; it is stored "
        "parsed, as `data`",
    )
    more_inputs: list[Annotated[str, Field(min_length=1, max_length=2048)]] | None = Field(
        default=None,
        max_length=FILES_LIMIT - 1,
        description="Further files, which the model sees after the first and in this order: S3 URIs, or names of files "
        "beside the first",
    )

    @field_validator("end")
    @classmethod
    def _after_start(cls, end: float | None, others: ValidationInfo) -> float | None:
        start = others.data.get("start")
        if end is not None and start is not None and end <= start:
            raise ValueError(f"must be later than start, {start:g}")
        return end


NAMES = {str(field.alias): name for name, field in Parameters.model_fields.items()}
"""The name of each parameter in Python, by its name in JSON."""


def read_parameters(values: dict[str, Any]) -> Parameters:
    """Return parameters from values by their names in JSON, which may all be text, as in forms and metadata.

    Raises ValidationError, whose paths begin with the parameter's name.
    """
    schema, more = values.get("jsonSchema"), values.get("moreInputs")
    if isinstance(schema, str):
        values = {**values, "jsonSchema": _parsed(schema)}
    if isinstance(more, str):
        values = {**values, "moreInputs": _parsed(more) if more.lstrip().startswith("[") else [more]}
    return Parameters.model_validate(values, strict=False)


def _parsed(text: str) -> Any:
    """Return the parsed JSON, or the text itself, which validation then refuses."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
