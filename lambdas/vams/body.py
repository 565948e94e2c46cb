"""Read the body that VAMS sends: 2.5 has everything in it, 2.6 has the S3 location of a manifest."""

import json
from datetime import datetime
from typing import Any

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import S3Location, parse_uri
from lambdas.vams.manifest import read_manifest_call
from lambdas.vams.requests import (
    FileRequest,
    WorkflowCall,
    WorkflowSettings,
    inner,
    make_request,
    output_below,
    starts_from_text,
    text,
)

TASK_TOKEN = "TaskToken"  # noqa: S105 - the name of a field


def read_body(event: dict[str, Any]) -> dict[str, Any]:
    """Return the body of the call as an object; VAMS sends an object, or one as JSON text. Raises Failure."""
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
    """Return the task token. Raises Failure."""
    token = body.get(TASK_TOKEN)
    if not isinstance(token, str) or not token.strip():
        raise Failure(
            "InvalidInput",
            "The body has no TaskToken.",
            "Register the pipeline in VAMS with waitForCallback 'Enabled'.",
        )
    return token


def read_call(body: dict[str, Any], pipeline: Pipeline, deadline: datetime) -> WorkflowCall:
    """Read the call of a workflow of VAMS, in the form of 2.5 or of 2.6. Raises Failure."""
    manifest = text(body, "inputManifestS3Location")
    if manifest is not None:
        return read_manifest_call(manifest, body, pipeline, deadline)
    parameters, metadata = _object(body, "inputParameters"), _object(body, "inputMetadata")
    of_vams = inner(metadata, "VAMS")
    workflow_settings = WorkflowSettings(parameters, of_asset=inner(of_vams, "assetMetadata"))
    files, caller = _location(body, "outputS3AssetFilesPath"), text(body, "databaseId")
    if starts_from_text(workflow_settings, pipeline):
        request = make_request(pipeline, deadline, workflow_settings, output=files.uri, caller=caller)
        return WorkflowCall([FileRequest("the run", request)], files.uri)
    file = _location(body, "inputS3AssetFilePath")
    request = make_request(
        pipeline,
        deadline,
        WorkflowSettings(parameters, inner(of_vams, "fileMetadata"), workflow_settings.of_asset),
        input=file.uri,
        caller=caller,
        **_output(body, file, files),
    )
    return WorkflowCall([FileRequest(file.uri, request)], files.uri)


def _output(body: dict[str, Any], file: S3Location, files: S3Location) -> dict[str, str | None]:
    """Return the request's fields for its output: the results go into the file's own directory within its asset.

    `inputAssetLocationKey` is the asset's root in its bucket; it may lack the asset's id.
    """
    root = (text(body, "inputAssetLocationKey") or "").strip("/")
    if root and file.key.startswith(f"{root}/"):
        directory = file.key.removeprefix(f"{root}/").rpartition("/")[0]
        return {"output": output_below(files, directory)}
    return {"output": files.uri, "asset_id": text(body, "assetId")}


def _object(body: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object or JSON text of one; an empty object if it is absent. Raises Failure."""
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


def _location(body: dict[str, Any], name: str) -> S3Location:
    """Return the location in a field that is an S3 URI. Raises Failure."""
    if (uri := text(body, name)) is None:
        raise Failure("InvalidInput", f"The body has no {name}.", "Start the workflow on a file of an asset.")
    try:
        return parse_uri(uri)
    except ValueError as error:
        raise Failure(
            "InvalidInput", f"{name}: {uri!r} {error}.", "Send the body as a workflow of VAMS makes it."
        ) from error
