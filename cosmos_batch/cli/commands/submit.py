"""`cosmos-batch submit`: files in, job ids out."""

import argparse
import json
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import input_checks
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.reasoner_request import ReasonerRequest, read_reasoner_request
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.cli.worker_failures import print_worker_failures
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import execution_name


@dataclass(frozen=True)
class Submitted:
    """One request that was made."""

    job_id: str
    pipeline: str
    input: str
    at: datetime
    uploaded: dict[str, dict[str, str]] = field(default_factory=dict)  # what a document says of files of this machine


def submit(arguments: argparse.Namespace) -> int:
    """Submit every input; all are checked before the first is sent."""
    question = read_reasoner_request(arguments)
    inputs = [input_checks.checked(name) for name in arguments.inputs]
    deployment = deployments.find()
    pipeline = input_checks.chosen_pipeline(arguments.pipeline, deployment.pipelines)
    uploads = Uploads(deployment)
    question = with_more_inputs(uploads, question)
    for one in inputs:
        submitted = start_on(deployment, uploads, one, question, pipeline)
        print(json.dumps({"id": submitted.job_id, "input": submitted.input}) if arguments.json else submitted.job_id)
    print_worker_failures(deployment, [pipeline])
    return 0


def with_more_inputs(uploads: Uploads, question: ReasonerRequest) -> ReasonerRequest:
    """The question with all of its further files in S3."""
    names = question.parameters.more_inputs
    if names is None:
        return question
    found = [input_checks.checked(name) for name in names]
    uris = [uploads.put(one) if isinstance(one, Path) else one for one in found]
    return replace(question, parameters=question.parameters.model_copy(update={"more_inputs": uris}))


def start_on(
    deployment: Deployment, uploads: Uploads, file: Path | str, question: ReasonerRequest, pipeline: str
) -> Submitted:
    """Start a job on a file, which is uploaded first if it is one of this machine. A long prompt lies in S3 too."""
    prompt = question.prompt or ""
    is_long = len(prompt.encode()) > PROMPT_INLINE_LIMIT
    request = Request(
        pipeline=pipeline,
        input=uploads.put(file) if isinstance(file, Path) else file,
        prompt=None if is_long else question.prompt,
        prompt_uri=uploads.put_text("prompt.txt", prompt) if is_long else None,
        system_prompt=question.system_prompt,
        parameters=question.parameters,
    )
    return start(deployment, request)


def start(deployment: Deployment, request: Request) -> Submitted:
    """Start the state machine, as a person can from its console: what it is about is in S3 already, or is text."""
    name = execution_name(request.pipeline, uuid.uuid4().hex)
    submitted = Submitted(name, request.pipeline, request.input or "", datetime.now(UTC))
    deployment.clients("stepfunctions").start_execution(
        stateMachineArn=deployment.state_machine_arn,
        name=submitted.job_id,
        input=request.model_dump_json(exclude_defaults=True),
    )
    return submitted
