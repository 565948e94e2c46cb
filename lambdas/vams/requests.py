"""Turn what a workflow of VAMS sends, in any version, into requests. Fields that are not ours are ignored."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from cosmos_batch.catalogue.generation import MODES
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.metadata import PARAMETERS, PROMPT, SYSTEM_PROMPT, is_set
from cosmos_batch.contract.parameters import NAMES, Parameters, read_parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location, join_below
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.metadata import (
    INVALIDATE,
    keys_of_configuration,
    keys_of_metadata,
    prompt_and_parameters,
    read_switch,
)
from cosmos_batch.planning.generation.prompts import prompt_text

PROMPT_PARAMETERS = ("prompt", "PROMPT")

# The names of the Cosmos Reason models in VAMS's own pipelines.
MODEL_TYPES = ("reason", "reason2", "cosmos-reason", "cosmos-reason2")

CORRECT_VAMS = "Correct the metadata of the file or asset in VAMS, or the configuration of the workflow."


@dataclass(frozen=True)
class FileRequest:
    """The request for one file of a run. `name` identifies the file to a person."""

    name: str
    request: Request


@dataclass(frozen=True)
class WorkflowCall:
    """The requests in one call of a VAMS workflow.

    `output_files` is the S3 URI of the prefix below which all results go; `manifest` is the S3 URI of the document that
    names the files, if there is one; `event_prefix` is the run's source name on the orchestration bus, if it has one.
    """

    files: list[FileRequest]
    output_files: str
    manifest: str | None = None
    event_prefix: str | None = None


@dataclass(frozen=True)
class WorkflowSettings:
    """The settings that users wrote in VAMS: the workflow's configuration, and the file's and its asset's metadata."""

    configuration: dict[str, Any]
    of_file: dict[str, Any] = field(default_factory=dict)
    of_asset: dict[str, Any] = field(default_factory=dict)


def make_request(pipeline: Pipeline, deadline: datetime, settings: WorkflowSettings, **locations: Any) -> Request:
    """Return the request for one file; `locations` are Request's fields for its input and output. Raises Failure."""
    if pipeline.surface == "generator":
        return _generator_request(pipeline, deadline, settings, **locations)
    parameters, file_metadata = settings.configuration, settings.of_file
    check_model(parameters, pipeline)
    try:
        return Request(
            pipeline=pipeline.id,
            prompt=read_prompt(file_metadata, parameters),
            system_prompt=text(file_metadata, SYSTEM_PROMPT) or text(parameters, "systemPrompt"),
            parameters=_parameters(parameters, file_metadata),
            invalidate_model=_invalidates(parameters),
            deadline=deadline,
            **locations,
        )
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), CORRECT_VAMS) from error


def output_below(files: S3Location, directory: str) -> str:
    """Return the output prefix for a file: VAMS moves results below `files` into the same directory of the asset."""
    return f"{S3Location(files.bucket, join_below(files.key, directory)).uri}/"


def starts_from_text(settings: WorkflowSettings, pipeline: Pipeline) -> bool:
    """Return whether a run asks a generator for a mode that reads no file; VAMS may send a file all the same.

    The mode is given in the asset's metadata or in the configuration, and its other settings are read there too.
    """
    if pipeline.surface == "reasoner":
        return False
    offered = pipeline.modes
    mode = _prompt_and_generation(settings, pipeline)[1].mode or (offered[0] if len(offered) == 1 else None)
    return mode is not None and not MODES[mode].inputs


def _generator_request(pipeline: Pipeline, deadline: datetime, settings: WorkflowSettings, **locations: Any) -> Request:
    prompt, generation = _prompt_and_generation(settings, pipeline)
    try:
        return Request(
            pipeline=pipeline.id,
            prompt=None if prompt is None else prompt_text("prompt", prompt),
            generation=generation,
            invalidate_model=bool(read_switch(settings.configuration, INVALIDATE)),
            deadline=deadline,
            **locations,
        )
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), CORRECT_VAMS) from error


def _prompt_and_generation(
    settings: WorkflowSettings, pipeline: Pipeline
) -> tuple[str | dict[str, Any] | None, GenerationParameters]:
    """Return the prompt and the other parameters of a generation. Raises Failure.

    Each is taken from the file's metadata if it is there, else from the asset's, else from the configuration.
    """
    file_metadata, asset_metadata = keys_of_metadata(settings.of_file), keys_of_metadata(settings.of_asset)
    configured = keys_of_configuration(settings.configuration, pipeline)
    try:
        prompt, parameters = prompt_and_parameters(file_metadata, asset_metadata, configured)
    except ValueError as error:
        raise Failure("InvalidInput", f"{error}.", CORRECT_VAMS) from error
    return prompt, read_generation_parameters(parameters)


def read_prompt(file_metadata: dict[str, Any], parameters: dict[str, Any]) -> str | None:
    """Return a reasoner's prompt from the file's metadata, or else from the parameters; a blank one is absent.

    The asset's metadata is not read.
    """
    if (prompt := text(file_metadata, PROMPT)) is not None:
        return prompt
    return next((prompt for name in PROMPT_PARAMETERS if (prompt := text(parameters, name)) is not None), None)


def check_model(parameters: dict[str, Any], pipeline: Pipeline) -> None:
    """Check that MODEL_TYPE and MODEL_SIZE, if they are set, are those of this pipeline's model. Raises Failure."""
    model_type, size = text(parameters, "MODEL_TYPE"), text(parameters, "MODEL_SIZE")
    if model_type is not None and model_type.strip().lower() not in MODEL_TYPES:
        raise _other_model("MODEL_TYPE", model_type, pipeline, MODEL_TYPES[0])
    if size is not None and size.strip().upper() != pipeline.model_size.upper():
        raise _other_model("MODEL_SIZE", size, pipeline, pipeline.model_size)


def inner(value: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object; an empty object if it is absent or something else."""
    field_value = value.get(name)
    return field_value if isinstance(field_value, dict) else {}


def text(value: dict[str, Any], name: str) -> str | None:
    """Return a field's text; None if it is absent or blank. Raises Failure if it is not text."""
    field_value = value.get(name)
    if field_value is not None and not isinstance(field_value, str):
        raise Failure("InvalidInput", f"{name} must be text.", f"Correct {name} in VAMS.")
    return field_value if field_value and field_value.strip() else None


def _other_model(name: str, value: str, pipeline: Pipeline, right: str) -> Failure:
    return Failure(
        "InvalidInput",
        f"{name} is {value!r}, but {pipeline.id} runs {pipeline.model}.",
        f"Set {name} to {right!r} or leave it out, or run the workflow of the other pipeline.",
    )


def _parameters(parameters: dict[str, Any], file_metadata: dict[str, Any]) -> Parameters:
    """Return a reasoner's parameters: each from the file's metadata, or else from the workflow's.

    VAMS's form turns numbers into text, which `read_parameters` accepts.
    """
    of_request = {name: value for name, value in parameters.items() if name in NAMES and is_set(value)}
    of_file = {alias: file_metadata[key] for key, alias in PARAMETERS.items() if is_set(file_metadata.get(key))}
    return read_parameters({**of_request, **of_file})


def _invalidates(parameters: dict[str, Any]) -> bool:
    return str(parameters.get(INVALIDATE)).strip().lower() == "true"
