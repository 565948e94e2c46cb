"""`cosmos-batch submit`: start a job for a file, or a run for many, and print its id."""

import json
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.input_checks import File, checked_file, chosen_reasoner
from cosmos_batch.cli.job_result import UploadedFile
from cosmos_batch.cli.model_access import inform_of_stand_ins
from cosmos_batch.cli.options import reasoner_options
from cosmos_batch.cli.reasoner_request import ReasonerRequest, read_reasoner_request
from cosmos_batch.cli.request_checks import Problems, checked_objects, checked_request
from cosmos_batch.cli.robot_inputs import episode_options, typed_inputs, with_episodes
from cosmos_batch.cli.runs.confirm_and_start import start_run
from cosmos_batch.cli.runs.file_run import is_many_files, read_file_run
from cosmos_batch.cli.uploads import Uploads, upload_names
from cosmos_batch.cli.worker_failures import print_worker_failures
from cosmos_batch.contract.request import Request
from cosmos_batch.planning.executions import execution_name


@dataclass(frozen=True)
class Submitted:
    """A job that was started."""

    job_id: str
    pipeline: str
    input: str
    at: datetime
    uploaded: dict[str, UploadedFile] = field(default_factory=dict)
    """By URI, the files of this machine that were uploaded for a generator."""


@click.command(
    cls=CosmosCommand,
    examples=[
        'cosmos-batch submit clip.mp4 --prompt "What happens?"',
        "cosmos-batch submit pusht/ --episode 0-2 --camera observation.images.front --task caption",
        "cosmos-batch submit clips/ --task caption --skip-invalid --yes",
        "cosmos-batch submit s3://my-bucket/clips/ --task caption",
        'cosmos-batch submit clip.mp4 --json --prompt "Is anybody in danger?" --pipeline cosmos-reason2-2b',
    ],
)
@click.argument("files", metavar="FILE|FOLDER|s3://... ...", type=click.Path(), nargs=-1, required=True)
@reasoner_options
@episode_options
@option("--skip-invalid", is_flag=True, help="Leave out files that cannot be used, and submit the others.")
@option("--yes", is_flag=True, help="Do not ask whether to proceed with a run.")
@option("--json", "as_json", is_flag=True, help="Print the id with the input, or with the plan, as JSON.")
def command(
    files: tuple[str, ...],
    prompt: str | None,
    pipeline: str | None,
    system_prompt: str | None,
    skip_invalid: bool,
    episodes: tuple[str, ...],
    cameras: tuple[str, ...],
    yes: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Start a job for one file, or a run for many, wherever this shell points, and print its id.

    Several files, a folder or an S3 prefix are a run: see `cosmos-batch runs`. Files of this machine are uploaded. All
    are checked before the first is sent.
    """
    names = with_episodes(files, episodes, cameras)
    if is_many_files(names):
        question = {"prompt": prompt, "pipeline": pipeline, "system_prompt": system_prompt, **options}
        deployment = deployments.find()
        spec = read_file_run(deployment, names, question, skip_invalid, typed_inputs(files, episodes, cameras))
        # Only a person at a terminal is asked whether to proceed, so that scripts can submit.
        start_run(deployment, spec, yes or not sys.stdin.isatty(), as_json)
        return 0
    request = read_reasoner_request(prompt, system_prompt, options)
    problems = Problems()
    inputs = checked_request(names, request, problems)
    if not inputs:
        problems.raise_all()
    deployment = deployments.find()
    chosen = chosen_reasoner(pipeline, deployment.pipelines)
    inputs = checked_objects(deployment, inputs, request, chosen, problems)
    problems.report(len(inputs), skip_invalid)
    inform_of_stand_ins(deployment, [chosen])
    for submitted in submit_files(deployment, inputs, request, chosen):
        print(json.dumps({"id": submitted.job_id, "input": submitted.input}) if as_json else submitted.job_id)
    print_worker_failures(deployment, [chosen])
    return 0


def submit_files(
    deployment: Deployment, files: Sequence[File], request: ReasonerRequest, pipeline: str
) -> Iterator[Submitted]:
    """Upload the files of this machine and start a job for each, as the iterator is advanced."""
    uploads = Uploads(deployment)
    request = with_uploaded_inputs(uploads, request)
    names = upload_names([file for file in files if isinstance(file, Path)])
    for file in files:
        uri = uploads.put(file, names[file]) if isinstance(file, Path) else file
        yield start(deployment, _request(uploads, uri, request, pipeline))


def start(deployment: Deployment, request: Request) -> Submitted:
    """Start the state machine. All that the request names lies in S3 already."""
    name = execution_name(request.pipeline, uuid.uuid4().hex)
    submitted = Submitted(name, request.pipeline, request.input or "", datetime.now(UTC))
    deployment.clients("stepfunctions").start_execution(
        stateMachineArn=deployment.state_machine_arn,
        name=submitted.job_id,
        input=request.model_dump_json(exclude_defaults=True),
    )
    return submitted


def with_uploaded_inputs(uploads: Uploads, request: ReasonerRequest) -> ReasonerRequest:
    """Return the request with its further inputs uploaded."""
    names = request.parameters.more_inputs
    if names is None:
        return request
    files = [checked_file(name) for name in names]
    uris = [uploads.put(file) if isinstance(file, Path) else file for file in files]
    return replace(request, parameters=request.parameters.model_copy(update={"more_inputs": uris}))


def _request(uploads: Uploads, uri: str, request: ReasonerRequest, pipeline: str) -> Request:
    """Return the state machine's request; a prompt that is too long for its input is uploaded."""
    prompt = request.prompt or ""
    is_long = len(prompt.encode()) > PROMPT_INLINE_LIMIT
    return Request(
        pipeline=pipeline,
        input=uri,
        prompt=None if is_long else request.prompt,
        prompt_uri=uploads.put_text("prompt.txt", prompt) if is_long else None,
        system_prompt=request.system_prompt,
        parameters=request.parameters,
    )
