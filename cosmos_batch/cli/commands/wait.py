"""`cosmos-batch wait`: wait until jobs have ended."""

import time

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import FAILED, StillRunning
from cosmos_batch.cli.job_snapshot import find_job, no_such_job
from cosmos_batch.cli.job_summary import JobSummary, summarize
from cosmos_batch.cli.json_lines import json_option, print_line
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.stopped_clouds.lookup import Kept, find_with_kept

POLL_SECONDS = 2.0


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch wait ID", "cosmos-batch wait ID ID --timeout 600"],
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@option("--timeout", metavar="SECONDS", type=click.FloatRange(0), help="Give up then, with exit status 3.")
@json_option("id, state, reason")
def command(ids: tuple[str, ...], timeout: float | None, as_json: bool) -> int:
    """Wait until jobs have ended, and print each with its state as it ends. The exit status is 1 where one failed."""
    deployment, kept = find_with_kept()
    deadline = None if timeout is None else time.monotonic() + timeout
    waiting, status = list(dict.fromkeys(ids)), 0
    while True:
        for job_id in list(waiting):
            if job := _ended(deployment, kept, job_id):
                if as_json:
                    print_line(id=job_id, state=job.state, reason=job.reason or None)
                else:
                    print(f"{job_id} {job.state}", flush=True)
                if job.state != "SUCCEEDED":
                    inform(f"    {job.reason}")
                    status = FAILED
                waiting.remove(job_id)
        if not waiting:
            return status
        if deadline is not None and time.monotonic() >= deadline:
            raise StillRunning(f"Not ended after {timeout:g} s: {' '.join(waiting)}", "`cosmos-batch status` has more.")
        time.sleep(POLL_SECONDS)


def _ended(deployment: Deployment | None, kept: Kept | None, job_id: str) -> JobSummary | None:
    """Return a job that has ended, or None while it is under way. Raises CliError where there is none."""
    if kept and (job := kept.job(job_id)):
        return job
    if deployment is None:
        raise no_such_job(job_id)
    return summarize(deployment, job_id) if find_job(deployment, job_id)[0].over else None
