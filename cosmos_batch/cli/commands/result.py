"""`cosmos-batch result`: what jobs have answered."""

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import progress
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import StillRunning
from cosmos_batch.cli.job_result import JobResult, print_or_save, read_job_result
from cosmos_batch.cli.job_snapshot import JobObserver, find_job
from cosmos_batch.cli.output import output_options, output_target

START_SECONDS = 60.0  # how long --wait looks for a job: its execution may be started at this moment


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch result ID", "cosmos-batch result ID --wait", "cosmos-batch result ID --output made/"],
)
@click.argument("id")
@option("--wait", is_flag=True, help="Wait until the job has ended.")
@output_options()
def command(id: str, wait: bool, output: str | None, force: bool) -> int:
    """Print the document of a job that has ended, or save it with all files that were made."""
    target = output_target(output, force, None)
    deployment = deployments.find()
    return print_or_save(deployment, ended_job(deployment, id, wait), target)


def ended_job(deployment: Deployment, job_id: str, wait: bool) -> JobResult:
    """Return the result of a job, if it has ended or after waiting for that. Raises StillRunning, or CliError."""
    execution, row = find_job(deployment, job_id, START_SECONDS if wait else 0)
    if wait and not execution.over:
        with progress.display() as display:
            progress.follow(deployment, job_id, execution.started_at, display)
        execution, row = find_job(deployment, job_id)
    if not execution.over:
        raise StillRunning(
            f"{job_id} is still under way: {JobObserver(deployment, job_id).look().waits_for()}.",
            "Ask again later, or wait for it: cosmos-batch result --wait",
        )
    return read_job_result(execution, row)
