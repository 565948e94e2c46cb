"""`cosmos-batch logs`: print what a job's worker has logged."""

from datetime import UTC, datetime

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import find_job
from cosmos_batch.cli.json_lines import print_line
from cosmos_batch.cli.stopped_clouds.lookup import find_with_jobs
from cosmos_batch.cli.worker_log import readable_lines, worker_events


@click.command(cls=CosmosCommand, examples=["cosmos-batch logs ID", "cosmos-batch logs ID --all"])
@click.argument("id")
@option("--all", "all_lines", is_flag=True, help="Print all lines of the worker, also those on other jobs.")
@option(
    "--json", "as_json", is_flag=True, help="Print the lines as they were logged, each in a JSON object with its time."
)
def command(id: str, all_lines: bool, as_json: bool) -> int:
    """Print what a job's last worker has logged about it, oldest first, with times in UTC."""
    deployment = find_with_jobs([id])
    execution, row = find_job(deployment, id)
    if row is None or row.worker is None:
        raise CliError(
            f"No worker has taken {id}{': its request was refused' if execution.over else ' yet'}.",
            f"cosmos-batch status {id}",
        )
    for event in worker_events(deployment, row.worker):
        if not all_lines and id not in event["message"]:
            continue
        if as_json:
            moment = datetime.fromtimestamp(event["timestamp"] / 1000, UTC)
            print_line(time=moment.isoformat(timespec="milliseconds"), message=event["message"])
        else:
            print("\n".join(readable_lines(event)))
    return 0
