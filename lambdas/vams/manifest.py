"""Read a run of VAMS 2.6, whose body has the S3 locations of its manifest, configuration and metadata."""

import json
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure, explain
from cosmos_batch.contract.s3 import S3Location, parse_uri
from lambdas.s3_objects import Missing, Unreadable, head, read
from lambdas.vams.metadata import RunMetadata, relative_path
from lambdas.vams.requests import (
    FileRequest,
    WorkflowCall,
    WorkflowSettings,
    make_request,
    output_below,
    starts_from_text,
    text,
)

# One call of the function reads the manifest and the metadata of all files into its memory.
FILES_LIMIT = 10_000


class _ManifestPart(BaseModel):
    """A part of the manifest. Fields that we do not know are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Asset(_ManifestPart):
    """An asset. VAMS writes "" where it does not know a value."""

    asset_id: str = ""
    database_id: str = ""


class ManifestFile(Asset):
    """An input file of the run."""

    bucket: str
    key: str
    version_id: str = ""
    relative_path: str = Field(default="", description="Within the asset, with a leading slash")


class Outputs(_ManifestPart):
    """The place for the results: a bucket, and a prefix in it."""

    bucket: str = Field(min_length=1)
    files: str = Field(min_length=1)


class SystemConfig(_ManifestPart):
    """Facts about the deployment of VAMS."""

    orchestration_event_prefix: str = ""


class Manifest(_ManifestPart):
    """The inputs and outputs of one pipeline within one run."""

    input_files: list[ManifestFile] = Field(default_factory=list)
    outputs: Outputs
    output_target: Asset = Field(default_factory=Asset, description="Where VAMS moves the results")
    input_metadata_s3_location: str = Field(default="", alias="inputMetadataS3Location")
    system_config: SystemConfig = Field(default_factory=SystemConfig)

    @property
    def asset(self) -> Asset:
        """Return the asset of the run's first file, or the one that its results go to where it has no files."""
        return self.input_files[0] if self.input_files else self.output_target


def read_manifest_call(uri: str, body: dict[str, Any], pipeline: Pipeline, deadline: datetime) -> WorkflowCall:
    """Read the call of a workflow of VAMS 2.6. Raises Failure."""
    manifest = _manifest(uri)
    parameters = _configuration(text(body, "inputConfigurationS3Location"))
    metadata = RunMetadata(_metadata(manifest.input_metadata_s3_location or text(body, "inputMetadataS3Location")))
    _check_number(len(manifest.input_files), pipeline)
    files = S3Location(manifest.outputs.bucket, manifest.outputs.files).uri
    event_prefix = manifest.system_config.orchestration_event_prefix or None
    asset = manifest.asset
    workflow_settings = WorkflowSettings(parameters, of_asset=metadata.of_asset(asset.database_id, asset.asset_id))
    if not manifest.input_files or starts_from_text(workflow_settings, pipeline):
        request = make_request(
            pipeline,
            deadline,
            workflow_settings,
            output=_output(manifest.outputs, ""),
            caller=asset.database_id or None,
        )
        return WorkflowCall([FileRequest("the run", request)], files, uri, event_prefix)
    has_one_asset = len({file.asset_id for file in manifest.input_files}) == 1
    requests = [
        FileRequest(
            _path(file) if has_one_asset else f"{file.asset_id}/{_path(file)}",
            make_request(
                pipeline,
                deadline,
                _settings(file, parameters, metadata),
                input=S3Location(file.bucket, file.key).uri,
                input_version_id=file.version_id or None,
                output=_output(manifest.outputs, relative_path(file.relative_path)),
                caller=file.database_id or None,
            ),
        )
        for file in manifest.input_files
    ]
    return WorkflowCall(requests, files, uri, event_prefix)


def _settings(file: ManifestFile, parameters: dict[str, Any], metadata: RunMetadata) -> WorkflowSettings:
    of_file = metadata.of_file(file.database_id, file.asset_id, relative_path(file.relative_path))
    return WorkflowSettings(parameters, of_file, metadata.of_asset(file.database_id, file.asset_id))


def _path(file: ManifestFile) -> str:
    """Return a file's path within its asset, by which a person knows it."""
    return relative_path(file.relative_path) or file.key


def _check_number(files: int, pipeline: Pipeline) -> None:
    if files == 0 and pipeline.surface == "reasoner":
        raise Failure(
            "InvalidInput", "The workflow was started on no file.", f"Select a file: {pipeline.id} looks at files."
        )
    if files > FILES_LIMIT:
        raise Failure(
            "InvalidInput",
            f"The workflow was started on {files} files.",
            f"Select at most {FILES_LIMIT} and run it again for the rest.",
        )


def _manifest(uri: str) -> Manifest:
    try:
        return Manifest.model_validate(_read(uri, "manifest"))
    except ValidationError as error:
        raise Failure(
            "InvalidInput", f"{uri} is no manifest of VAMS 2.6: {explain(error)}", "Run the workflow again."
        ) from error


def _configuration(uri: str | None) -> dict[str, Any]:
    """Return the workflow's configuration; VAMS sends its location even if nobody has written one."""
    try:
        return {} if uri is None else _read(uri, "configuration")
    except Failure as failure:
        if isinstance(failure.__cause__, Missing):
            return {}
        raise


def _metadata(uri: str | None) -> dict[str, Any]:
    return {} if uri is None else _read(uri, "metadata")


def _read(uri: str, document: str) -> dict[str, Any]:
    """Return the JSON object in a file in S3; an empty file is an empty object. Raises Failure."""
    try:
        content = read(head(_location(uri, document)))
    except Missing as missing:  # the message begins with the fault, for VAMS shows only its beginning
        raise Failure("InvalidInput", f"The {document} does not exist: {uri}", "Run the workflow again.") from missing
    except Unreadable as unreadable:
        raise Failure(
            "InvalidInput", f"The {document} may not be read ({unreadable}): {uri}", "Name its bucket in vams.buckets."
        ) from unreadable
    try:
        parsed = json.loads(content) if content.strip() else {}
    except ValueError as error:
        raise Failure(
            "InvalidInput", f"The {document}, {uri}, is not JSON.", f"Correct the {document} in VAMS."
        ) from error
    if not isinstance(parsed, dict):
        raise Failure(
            "InvalidInput", f"The {document}, {uri}, is not a JSON object.", f"Correct the {document} in VAMS."
        )
    return parsed


def _location(uri: str, document: str) -> S3Location:
    try:
        return parse_uri(uri)
    except ValueError as error:
        raise Failure(
            "InvalidInput", f"The {document}'s place, {uri!r}, {error}.", "Run the workflow again."
        ) from error


def _output(outputs: Outputs, path: str) -> str:
    return output_below(S3Location(outputs.bucket, outputs.files), path.rpartition("/")[0])
