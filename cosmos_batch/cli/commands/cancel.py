"""`cosmos-batch cancel`: stop jobs that have not ended."""

import click

from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.job_snapshot import find_job
from cosmos_batch.cli.job_summary import summarize
from cosmos_batch.cli.json_lines import json_option, print_line
from cosmos_batch.cli.stopped_clouds.lookup import find_with_jobs
from cosmos_batch.contract.error import Error


@click.command(cls=CosmosCommand, examples=["cosmos-batch cancel ID", "cosmos-batch cancel ID ID"])
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option("id, state, and whether it had ended already")
def command(ids: tuple[str, ...], as_json: bool) -> int:
    """Stop jobs. A job in the queue is never started; an answer that is under way is not stored.

    Jobs that have ended stay as they are.
    """
    deployment = find_with_jobs(ids)
    jobs = [(job_id, find_job(deployment, job_id)[0]) for job_id in ids]
    error = Error(
        code="Cancelled", message="The job was stopped with `cosmos-batch cancel`.", remedy="Submit it again."
    )
    for job_id, execution in jobs:
        if execution.over:
            _print(job_id, summarize(deployment, job_id).state, already=True, as_json=as_json)
            continue
        deployment.clients("stepfunctions").stop_execution(
            executionArn=deployment.execution_arn(job_id), error=error.code, cause=error.cause()
        )
        _print(job_id, "CANCELLED", already=False, as_json=as_json)
    return 0


def _print(job_id: str, state: str, *, already: bool, as_json: bool) -> None:
    if as_json:
        print_line(id=job_id, state=state, already=already)
    else:
        print(f"{job_id} {state}{' already' if already else ''}")
