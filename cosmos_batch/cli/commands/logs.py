"""`cosmos-batch logs`: what a job's worker has logged."""

from collections.abc import Iterator
from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import find_job, log_stream


@click.command(cls=CosmosCommand, examples=["cosmos-batch logs ID", "cosmos-batch logs ID --all"])
@click.argument("id")
@option("--all", "all_lines", is_flag=True, help="Print all lines of the worker, also those on other jobs.")
def command(id: str, all_lines: bool) -> int:
    """Print the lines that a job's last worker has logged about it, oldest first."""
    deployment = deployments.find()
    execution, row = find_job(deployment, id)
    if row is None or row.worker is None:
        raise CliError(
            f"No worker has taken {id}{': its request was refused' if execution.over else ' yet'}.",
            f"cosmos-batch status {id}",
        )
    for line in _lines(deployment, row.worker):
        if all_lines or id in line:
            print(line)
    return 0


def _lines(deployment: Deployment, worker: str) -> Iterator[str]:
    """Yield the log lines of a worker, which is a Batch job. Raises CliError where its log is not there any more."""
    jobs: list[dict[str, Any]] = deployment.clients("batch").describe_jobs(jobs=[worker])["jobs"]
    stream = log_stream(deployment, jobs[0]) if jobs else None
    if stream is None:
        raise CliError(
            f"The log of worker {worker} is not to be found: Batch forgets a job a week after its end.",
            "Look for its stream in CloudWatch Logs.",
        )
    logs = deployment.clients("logs")
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(**stream, startFromHead=True, **token)
        yield from (event["message"] for event in page["events"])
        following = {"nextToken": page["nextForwardToken"]}
        if following == token or not page["events"]:
            return
        token = following
