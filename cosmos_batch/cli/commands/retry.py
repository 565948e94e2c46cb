"""`cosmos-batch retry`: start jobs again that have failed or were cancelled."""

import json
import uuid
from typing import Any

import click

from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import StillRunning, WrongCall
from cosmos_batch.cli.job_result import read_document
from cosmos_batch.cli.job_snapshot import find_job
from cosmos_batch.cli.job_summary import summarize
from cosmos_batch.cli.json_lines import json_option, print_line
from cosmos_batch.cli.stopped_clouds.lookup import find_with_jobs
from cosmos_batch.cli.uploads import Uploads
from cosmos_batch.planning.executions import execution_name
from cosmos_batch.state import FINAL


@click.command(cls=CosmosCommand, examples=["cosmos-batch retry ID", "cosmos-batch retry ID ID"])
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option("id, and retries, the id of the job that is started again")
def command(ids: tuple[str, ...], as_json: bool) -> int:
    """Start the same requests again, and print the new jobs' ids. All are checked before the first is started."""
    ids = tuple(dict.fromkeys(ids))  # a job that is named twice is started again once
    deployment = find_with_jobs(ids)
    requests = []
    for job_id in ids:
        job = summarize(deployment, job_id)
        if job.state == "SUCCEEDED":
            raise WrongCall(f"{job_id} has succeeded.", f"cosmos-batch result {job_id}")
        if job.state not in FINAL:
            raise StillRunning(f"{job_id} has not ended.", f"cosmos-batch wait {job_id}")
        request = find_job(deployment, job_id)[0].request
        # Its own deadline may have passed. Without one, the configured time counts from now.
        request = {name: value for name, value in request.items() if name != "deadline"}
        requests.append(_with_readable_prompt(deployment, request))
    for job_id, request in zip(ids, requests, strict=True):
        name = execution_name(str(request.get("pipeline", "")), uuid.uuid4().hex)
        deployment.clients("stepfunctions").start_execution(
            stateMachineArn=deployment.state_machine_arn, name=name, input=json.dumps(request)
        )
        if as_json:
            print_line(id=name, retries=job_id)
        else:
            print(name)
    return 0


def _with_readable_prompt(deployment: Deployment, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request with a prompt that the new job may read.

    The long prompt of an uploaded file is kept in the state bucket, where `plan` reads only that of the job itself. So
    it is uploaded again. Raises CliError where it does not exist any more.
    """
    uri = request.get("promptUri")
    if not isinstance(uri, str) or not uri.startswith(f"s3://{deployment.state_bucket}/"):
        return request
    return {**request, "promptUri": Uploads(deployment).put_text("prompt.txt", read_document(deployment, uri))}
