"""The body that VAMS sends. 2.5 says all in it; 2.6 says where its manifest lies."""

import json
from datetime import datetime
from typing import Any

from cosmos_batch.contract.catalogue import Pipeline
from cosmos_batch.contract.error import Failure
from lambdas.vams_manifest import read_manifest_run
from lambdas.vams_request import Asked, Run, inner, make_request, text


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


def read_run(body: dict[str, Any], pipeline: Pipeline, deadline: datetime) -> Run:
    """What the workflow asks for, in whichever version. Raises Failure."""
    manifest = text(body, "inputManifestS3Location")
    if manifest is not None:
        return read_manifest_run(manifest, body, pipeline, deadline)
    parameters, metadata = _object(body, "inputParameters"), _object(body, "inputMetadata")
    request = make_request(
        pipeline,
        deadline,
        parameters,
        inner(inner(metadata, "VAMS"), "fileMetadata"),
        input=_needed(body, "inputS3AssetFilePath"),
        output=_needed(body, "outputS3AssetFilesPath"),
        asset_id=text(body, "assetId"),
        caller=text(body, "databaseId"),
    )
    return Run([Asked(request.input or "", request)])


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


def _needed(body: dict[str, Any], name: str) -> str:
    if (found := text(body, name)) is None:
        raise Failure("InvalidInput", f"The body has no {name}.", "Start the workflow on a file of an asset.")
    return found
