"""The body that VAMS 2.5 sends, as a Request. It is read tolerantly: what is not ours is left alone."""

import json
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from cosmos_batch.contract.catalogue import Pipeline
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.metadata import PROMPT
from cosmos_batch.contract.request import Parameters, Request

PROMPT_PARAMETERS = ("prompt", "PROMPT")

# What VAMS calls this family of models in its own pipelines.
MODEL_TYPES = ("reason", "reason2", "cosmos-reason", "cosmos-reason2")


def read_body(event: dict[str, Any]) -> dict[str, Any]:
    """The body, which is an object or JSON text. Raises Failure."""
    body = event.get("body") if isinstance(event, dict) else None
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError as error:
            raise Failure("InvalidInput", "The body is not JSON.", "Send the body of a VAMS workflow.") from error
    if not isinstance(body, dict):
        raise Failure("InvalidInput", "The body is not a JSON object.", "Send the body of a VAMS workflow.")
    return body


def read_token(body: dict[str, Any]) -> str:
    """The task token. Raises Failure."""
    token = body.get("TaskToken")
    if not isinstance(token, str) or not token.strip():
        raise Failure(
            "InvalidInput",
            "The body has no TaskToken.",
            "Register the pipeline in VAMS with waitForCallback 'Enabled'.",
        )
    return token


def read_request(body: dict[str, Any], pipeline: Pipeline, deadline: datetime) -> Request:
    """What the workflow asks for. Raises Failure."""
    parameters = _object(body, "inputParameters")
    check_model(parameters, pipeline)
    try:
        return Request(
            pipeline=pipeline.id,
            input=_needed(body, "inputS3AssetFilePath"),
            output=_needed(body, "outputS3AssetFilesPath"),
            asset_id=_text(body, "assetId"),
            caller=_text(body, "databaseId"),
            prompt=read_prompt(_object(body, "inputMetadata"), parameters),
            parameters=_parameters(parameters),
            invalidate_model=_invalidates(parameters),
            deadline=deadline,
        )
    except ValidationError as error:
        raise Failure("InvalidInput", explain(error), "Correct what VAMS sends for this workflow.") from error


def read_prompt(metadata: dict[str, Any], parameters: dict[str, Any]) -> str | None:
    """The file's metadata first, then the parameters; the asset's metadata does not count; blank is absent."""
    file_metadata = _inner(_inner(metadata, "VAMS"), "fileMetadata")
    if (prompt := _text(file_metadata, PROMPT)) is not None:
        return prompt
    return next((text for name in PROMPT_PARAMETERS if (text := _text(parameters, name)) is not None), None)


def check_model(parameters: dict[str, Any], pipeline: Pipeline) -> None:
    """MODEL_TYPE and MODEL_SIZE may be said; what they say must be this pipeline's. Raises Failure."""
    kind, size = _text(parameters, "MODEL_TYPE"), _text(parameters, "MODEL_SIZE")
    if kind is not None and kind.strip().lower() not in MODEL_TYPES:
        raise _other_model("MODEL_TYPE", kind, pipeline, MODEL_TYPES[0])
    if size is not None and size.strip().upper() != pipeline.model_size:
        raise _other_model("MODEL_SIZE", size, pipeline, pipeline.model_size)


def _other_model(name: str, given: str, pipeline: Pipeline, right: str) -> Failure:
    return Failure(
        "InvalidInput",
        f"{name} is {given!r}, but {pipeline.id} runs {pipeline.model}.",
        f"Set {name} to {right!r} or leave it out, or run the workflow of the other pipeline.",
    )


def _parameters(parameters: dict[str, Any]) -> Parameters:
    """Ours among the parameters. VAMS's form makes text of numbers: it is read as the number that it is."""
    names = {field.alias for field in Parameters.model_fields.values()}
    ours = {name: value for name, value in parameters.items() if name in names and value not in (None, "")}
    return Parameters.model_validate(ours, strict=False)


def _invalidates(parameters: dict[str, Any]) -> bool:
    return str(parameters.get("INVALIDATE_COSMOS_MODELS")).strip().lower() == "true"


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that is an object, JSON text of one, or nothing. Raises Failure."""
    value = body.get(name)
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError as error:
            raise Failure("InvalidInput", f"{name} is not JSON.", f"Correct {name} of the pipeline in VAMS.") from error
    if value is None or isinstance(value, str):
        return {}
    if not isinstance(value, dict):
        raise Failure("InvalidInput", f"{name} is not a JSON object.", f"Correct {name} of the pipeline in VAMS.")
    return value


def _inner(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}


def _text(value: dict[str, Any], name: str) -> str | None:
    """A field's text; None if it is absent or blank. Raises Failure if it is no text."""
    text = value.get(name)
    if text is not None and not isinstance(text, str):
        raise Failure("InvalidInput", f"{name} must be text.", f"Correct {name} in VAMS.")
    return text if text and text.strip() else None


def _needed(body: dict[str, Any], name: str) -> str:
    if (text := _text(body, name)) is None:
        raise Failure("InvalidInput", f"The body has no {name}.", "Start the workflow on a file of an asset.")
    return text
