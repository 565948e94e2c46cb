"""`cosmos-batch result`: print or save what jobs have answered."""

import json
from dataclasses import replace

import click

from cosmos_batch.cli import progress
from cosmos_batch.cli.answer_overlay import draw_overlay, overlay_option
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError, StillRunning, WrongCall, explain
from cosmos_batch.cli.input_checks import checked_path
from cosmos_batch.cli.job_result import JobResult, print_error, print_or_save, read_document, read_job_result
from cosmos_batch.cli.job_snapshot import JobObserver, find_job, no_such_job
from cosmos_batch.cli.json_lines import (
    print_missing_result_line,
    print_result_line,
    refuse_with_json,
    result_json_option,
)
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.cli.output import OutputTarget, output_options, output_target
from cosmos_batch.cli.stopped_clouds.lookup import Kept, find_with_kept

START_SECONDS = 60.0  # how long --wait looks for a job: its execution may be started at this moment


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch result ID",
        "cosmos-batch result ID --text",
        "cosmos-batch result ID ID --wait --output answers/",
        "cosmos-batch result ID --overlay --output answers/",
    ],
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@option("--wait", is_flag=True, help="Wait until the jobs have ended.")
@option("--text", "as_text", is_flag=True, help="Print the answer alone, not the document.")
@option("--media", metavar="FILE", type=click.Path(), help="Draw --overlay on this file, if the job's own is gone.")
@result_json_option
@output_options()
@overlay_option
def command(
    ids: tuple[str, ...],
    wait: bool,
    as_text: bool,
    media: str | None,
    output: str | None,
    force: bool,
    overlay: bool,
    as_json: bool,
) -> int:
    """Print the documents of jobs that have ended, or save them with all files that were made.

    A job that failed or runs does not keep the others back; the exit status tells of the worst.
    """
    refuse_with_json(as_json, text=as_text, overlay=overlay)
    if as_text and output:
        raise WrongCall("--text and --output do not go together.", "--text prints; > file saves what is printed.")
    if media and (len(ids) > 1 or not overlay):
        raise WrongCall(
            "--media needs --overlay and one job.", "Add --overlay, and name only the job whose input the file is."
        )
    file = str(checked_path(media)) if media else None
    target = output_target(output, force, f"{len(ids)} jobs" if len(ids) > 1 else None)
    cloud_deployment, kept = find_with_kept()
    status = 0
    for job_id in ids:
        try:
            deployment, result = _result(cloud_deployment, kept, job_id, wait)
            print_result = print_result_line if as_json else _print_text if as_text else print_or_save
            status = max(status, print_result(deployment, result, target))
            if overlay:
                status = max(status, draw_overlay(deployment, result, target, force, file))
        except CliError as error:
            if as_json:
                print_missing_result_line(job_id, error)
            if len(ids) == 1:
                raise
            warn(f"error: {explain(error)}")
            status = max(status, error.exit_status)
    return status


def _result(deployment: Deployment | None, kept: Kept | None, job_id: str, wait: bool) -> tuple[Deployment, JobResult]:
    """Return a job's result, and the deployment that has its files. Raises StillRunning, or CliError."""
    if kept and kept.job(job_id):
        return kept.jobs.deployment, replace(kept.jobs.result(job_id), job_id=job_id)
    if deployment is None:
        raise no_such_job(job_id)
    return deployment, ended_job(deployment, job_id, wait)


def ended_job(deployment: Deployment, job_id: str, wait: bool) -> JobResult:
    """Return the result of a job, if it has ended or after waiting for that. Raises StillRunning, or CliError."""
    execution, row = find_job(deployment, job_id, START_SECONDS if wait else 0)
    if wait and not execution.over:
        inform(f"{job_id}:")
        with progress.display() as display:
            progress.follow(deployment, job_id, execution.started_at, display)
        execution, row = find_job(deployment, job_id)
    if not execution.over:
        raise StillRunning(
            f"{job_id} is still under way: {JobObserver(deployment, job_id).look().waits_for()}.",
            f"Ask again later, or wait for it: cosmos-batch result --wait {job_id}",
        )
    return replace(read_job_result(execution, row), job_id=job_id)


def _print_text(deployment: Deployment, result: JobResult, _: OutputTarget | None) -> int:
    """Print a reasoner's answer, or a job's error. Raises CliError for the document of a generator."""
    if result.error is not None:
        return print_error(result.error)
    assert result.document_uri is not None, "a job without an error has a document"
    document = json.loads(read_document(deployment, result.document_uri))
    if not isinstance(document.get("result"), str):
        raise CliError(f"{result.document_uri} has no answer in words.", "Leave --text out, and name --output FOLDER/.")
    print(document["result"])
    return 0
