"""`cosmos-batch result`: the document of a job that has ended."""

import argparse
import sys
import time
from pathlib import Path

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import progress
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult, read_document, read_job_result, save_files
from cosmos_batch.cli.job_snapshot import JobExecution, JobObserver, read_execution
from cosmos_batch.contract.error import Error
from cosmos_batch.state import JobRow

START_SECONDS = 60.0  # so long is a job looked for: its execution may be started in this moment


def result(arguments: argparse.Namespace) -> int:
    """Print a job's document; with `--wait`, when it is there."""
    deployment = deployments.find()
    execution, row = find_job(deployment, arguments.id, START_SECONDS if arguments.wait else 0)
    if arguments.wait and not execution.over:
        with progress.display() as display:
            progress.follow(deployment, arguments.id, execution.started_at, display)
        execution, row = find_job(deployment, arguments.id)
    if not execution.over:
        raise CliError(
            f"{arguments.id} is still under way: {JobObserver(deployment, arguments.id).look().waits_for()}.",
            "Ask again later, or wait for it: cosmos-batch result --wait",
        )
    ended = read_job_result(execution, row)
    if arguments.output and ended.error is None:
        for path in save_files(deployment, ended, Path(arguments.output)):
            print(path)
        return 0
    return print_outcome(deployment, ended)


def print_outcome(deployment: Deployment, ended: JobResult) -> int:
    """Print the document, or the error and what to do about it. Returns the exit status."""
    if ended.error is not None:
        return print_error(ended.error)
    assert ended.document_uri is not None
    print(read_document(deployment, ended.document_uri))
    return 0


def print_error(error: Error) -> int:
    """What went wrong and what to do about it. Returns the exit status."""
    print(f"error: {error.code}: {error.message}\n{error.remedy}", file=sys.stderr)
    return 1


def find_job(deployment: Deployment, job_id: str, patience: float = 0) -> tuple[JobExecution, JobRow | None]:
    """The job, for which so many seconds are waited."""
    arn, deadline = deployment.execution_arn(job_id), time.monotonic() + patience
    while (execution := read_execution(deployment, arn)) is None:
        if time.monotonic() >= deadline:
            raise CliError(
                f"There is no job {job_id} here.",
                "`cosmos-batch status` lists the recent jobs.",
            )
        time.sleep(progress.POLL_SECONDS)
    return execution, deployment.jobs.get(job_id)
