"""What every version of VAMS says of a run, as requests of ours. What is not ours in it is left alone."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from cosmos_batch.catalogue.generation import MODES, MODES_OF_PIPELINE
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.metadata import PARAMETERS, PROMPT, SYSTEM_PROMPT, is_said
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

# What VAMS calls this family of models in its own pipelines.
MODEL_TYPES = ("reason", "reason2", "cosmos-reason", "cosmos-reason2")


@dataclass(frozen=True)
class Asked:
    """One file of a run; `name` is what a person knows it by."""

    name: str
    request: Request


@dataclass(frozen=True)
class Run:
    """What one call of VAMS asks for.

    `files` is the S3 prefix of all its results; `event_prefix` is its name on the orchestration bus, if it has one.
    """

    asked: list[Asked]
    files: str
    event_prefix: str | None = None


@dataclass(frozen=True)
class Said:
    """What VAMS's users wrote: beside the file, beside its asset, into the workflow's configuration."""

    configuration: dict[str, Any]
    of_file: dict[str, Any] = field(default_factory=dict)
    of_asset: dict[str, Any] = field(default_factory=dict)


def make_request(pipeline: Pipeline, deadline: datetime, said: Said, **where: Any) -> Request:
    """The request for one file; `where` are the fields of Request that say where it lies. Raises Failure."""
    if pipeline.surface == "generator":
        return _generation(pipeline, deadline, said, **where)
    parameters, file_metadata = said.configuration, said.of_file
    check_model(parameters, pipeline)
    try:
        return Request(
            pipeline=pipeline.id,
            prompt=read_prompt(file_metadata, parameters),
            system_prompt=text(file_metadata, SYSTEM_PROMPT) or text(parameters, "systemPrompt"),
            parameters=_parameters(parameters, file_metadata),
            invalidate_model=_invalidates(parameters),
            deadline=deadline,
            **where,
        )
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), "Correct what VAMS sends for this workflow.") from error


def output_below(files: S3Location, directory: str) -> str:
    """The output prefix for a file: VAMS keeps the directory that a result has below `files` on the asset."""
    return f"{S3Location(files.bucket, join_below(files.key, directory)).uri}/"


def starts_from_text(of_run: Said, pipeline: Pipeline) -> bool:
    """Whether a generator is asked for a mode that looks at no file: VAMS may send one whatever is asked.

    Such a mode is said by the asset or by the configuration, and reads those.
    """
    if pipeline.surface == "reasoner":
        return False
    offered = MODES_OF_PIPELINE[pipeline.id]
    mode = _parameters_of_generation(of_run, pipeline)[1].mode or (offered[0] if len(offered) == 1 else None)
    return mode is not None and not MODES[mode].inputs


def _generation(pipeline: Pipeline, deadline: datetime, said: Said, **where: Any) -> Request:
    prompt, generation = _parameters_of_generation(said, pipeline)
    try:
        return Request(
            pipeline=pipeline.id,
            prompt=None if prompt is None else prompt_text("prompt", prompt),
            generation=generation,
            invalidate_model=bool(read_switch(said.configuration, INVALIDATE)),
            deadline=deadline,
            **where,
        )
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), "Correct what VAMS sends for this workflow.") from error


def _parameters_of_generation(
    said: Said, pipeline: Pipeline
) -> tuple[str | dict[str, Any] | None, GenerationParameters]:
    """The prompt and the rest: the file's metadata first, then the asset's, then the configuration, name by name.

    Raises Failure.
    """
    configured = keys_of_configuration(said.configuration, pipeline)
    try:
        prompt, parameters = prompt_and_parameters(
            keys_of_metadata(said.of_file), keys_of_metadata(said.of_asset), configured
        )
    except ValueError as error:
        raise Failure("InvalidInput", f"{error}.", "Correct what VAMS sends for this workflow.") from error
    return prompt, read_generation_parameters(parameters)


def read_prompt(file_metadata: dict[str, Any], parameters: dict[str, Any]) -> str | None:
    """The file's metadata first, then the parameters; the asset's metadata does not count; blank is absent."""
    if (prompt := text(file_metadata, PROMPT)) is not None:
        return prompt
    return next((found for name in PROMPT_PARAMETERS if (found := text(parameters, name)) is not None), None)


def check_model(parameters: dict[str, Any], pipeline: Pipeline) -> None:
    """MODEL_TYPE and MODEL_SIZE may be said; what they say must be this pipeline's. Raises Failure."""
    kind, size = text(parameters, "MODEL_TYPE"), text(parameters, "MODEL_SIZE")
    if kind is not None and kind.strip().lower() not in MODEL_TYPES:
        raise _other_model("MODEL_TYPE", kind, pipeline, MODEL_TYPES[0])
    if size is not None and size.strip().upper() != pipeline.model_size.upper():
        raise _other_model("MODEL_SIZE", size, pipeline, pipeline.model_size)


def inner(value: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that is an object; an empty one otherwise."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def text(value: dict[str, Any], name: str) -> str | None:
    """A field's text; None if it is absent or blank. Raises Failure if it is no text."""
    found = value.get(name)
    if found is not None and not isinstance(found, str):
        raise Failure("InvalidInput", f"{name} must be text.", f"Correct {name} in VAMS.")
    return found if found and found.strip() else None


def _other_model(name: str, given: str, pipeline: Pipeline, right: str) -> Failure:
    return Failure(
        "InvalidInput",
        f"{name} is {given!r}, but {pipeline.id} runs {pipeline.model}.",
        f"Set {name} to {right!r} or leave it out, or run the workflow of the other pipeline.",
    )


def _parameters(parameters: dict[str, Any], file_metadata: dict[str, Any]) -> Parameters:
    """Ours among the parameters, each unless the file's metadata says it. VAMS's form makes text of numbers."""
    ours = {name: value for name, value in parameters.items() if name in NAMES and is_said(value)}
    of_file = {alias: file_metadata[key] for key, alias in PARAMETERS.items() if is_said(file_metadata.get(key))}
    return read_parameters({**ours, **of_file})


def _invalidates(parameters: dict[str, Any]) -> bool:
    return str(parameters.get(INVALIDATE)).strip().lower() == "true"
