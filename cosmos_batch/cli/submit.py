"""`cosmos-batch submit`: files in, job ids out."""

import argparse
import json
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import files, metadata
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.question import Question, read_question
from cosmos_batch.contract import Request
from cosmos_batch.contract.metadata import SIDECAR_SUFFIX
from cosmos_batch.contract.s3 import OBJECT_MARKER, execution_name

PREFIX = "uploads"


@dataclass(frozen=True)
class Submitted:
    """One request that was made."""

    job_id: str
    input: str
    at: datetime
    uploaded: dict[str, dict[str, str]] = field(default_factory=dict)  # what a document says of files of this machine


def submit(arguments: argparse.Namespace) -> int:
    """Submit every input; all are checked before the first is sent."""
    question = read_question(arguments)
    inputs = [files.checked(name) for name in arguments.inputs]
    deployment = deployments.find()
    pipeline = files.chosen_pipeline(arguments.pipeline, deployment.pipelines)
    question = with_more_inputs(deployment, question)
    for one in inputs:
        submitted = (
            upload(deployment, one, question, pipeline)
            if isinstance(one, Path)
            else start(deployment, _request(one, question, pipeline))
        )
        print(json.dumps({"id": submitted.job_id, "input": submitted.input}) if arguments.json else submitted.job_id)
    return 0


def with_more_inputs(deployment: Deployment, question: Question) -> Question:
    """The question with all of its further files in S3."""
    names = question.parameters.more_inputs
    if names is None:
        return question
    found = [files.checked(name) for name in names]
    uris = [upload_silently(deployment, one, new_folder()) if isinstance(one, Path) else one for one in found]
    return replace(question, parameters=question.parameters.model_copy(update={"more_inputs": uris}))


def upload_silently(deployment: Deployment, path: Path, folder: str) -> str:
    """Marked as ours: whatever its extension triggers, it starts no run by itself."""
    bucket, key = deployment.asset_bucket, f"{folder}/{path.name}"
    deployment.clients("s3").upload_file(str(path), bucket, key, ExtraArgs={"Metadata": {OBJECT_MARKER: "further"}})
    return f"s3://{bucket}/{key}"


def new_folder() -> str:
    """In the asset bucket, with nothing in it."""
    return f"{PREFIX}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"


def upload(deployment: Deployment, path: Path, question: Question, pipeline: str) -> Submitted:
    """Upload a file into a folder of its own, so that no other upload can take its place; the event does the rest."""
    s3 = deployment.clients("s3")
    at = datetime.now(UTC)
    bucket, key = deployment.asset_bucket, f"{new_folder()}/{path.name}"
    values = metadata.metadata(question, pipeline)
    headers = metadata.headers(values)
    if headers is None:
        # Before the file: the file's event finds it there.
        s3.put_object(Bucket=bucket, Key=key + SIDECAR_SUFFIX, Body=metadata.sidecar(values))
    s3.upload_file(str(path), bucket, key, ExtraArgs={"Metadata": headers or {}})
    version = s3.head_object(Bucket=bucket, Key=key)["VersionId"]
    return Submitted(execution_name(pipeline, bucket, key, version), f"s3://{bucket}/{key}", at)


def _request(uri: str, question: Question, pipeline: str) -> Request:
    return Request(
        pipeline=pipeline,
        input=uri,
        prompt=question.prompt,
        system_prompt=question.system_prompt,
        parameters=question.parameters,
    )


def start(deployment: Deployment, request: Request) -> Submitted:
    """Start the state machine, as a person can from its console: what it is about is in S3 already, or is text."""
    name = execution_name(request.pipeline, uuid.uuid4().hex)
    submitted = Submitted(name, request.input or "", datetime.now(UTC))
    deployment.clients("stepfunctions").start_execution(
        stateMachineArn=deployment.state_machine_arn,
        name=submitted.job_id,
        input=request.model_dump_json(exclude_defaults=True),
    )
    return submitted
