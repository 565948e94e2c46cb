"""`cosmos-batch logs`: print what a job's worker has logged."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import find_job, log_stream
from cosmos_batch.cli.json_lines import print_line


@click.command(cls=CosmosCommand, examples=["cosmos-batch logs ID", "cosmos-batch logs ID --all"])
@click.argument("id")
@option("--all", "all_lines", is_flag=True, help="Print all lines of the worker, also those on other jobs.")
@option("--json", "as_json", is_flag=True, help="Print a JSON object for each, on a line: time and message.")
def command(id: str, all_lines: bool, as_json: bool) -> int:
    """Print the lines that a job's last worker has logged about it, oldest first."""
    deployment = deployments.find()
    execution, row = find_job(deployment, id)
    if row is None or row.worker is None:
        raise CliError(
            f"No worker has taken {id}{': its request was refused' if execution.over else ' yet'}.",
            f"cosmos-batch status {id}",
        )
    for event in _events(deployment, row.worker):
        if not all_lines and id not in event["message"]:
            continue
        if as_json:
            moment = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            print_line(time=moment.isoformat(timespec="milliseconds"), message=event["message"])
        else:
            print(event["message"])
    return 0


def _events(deployment: Deployment, worker: str) -> Iterator[dict[str, Any]]:
    """Yield the log events of a worker, which is a Batch job. Raises CliError where its log is not there any more."""
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
        yield from page["events"]
        following = {"nextToken": page["nextForwardToken"]}
        if following == token or not page["events"]:
            return
        token = following
