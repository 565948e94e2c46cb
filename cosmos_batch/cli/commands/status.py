"""`cosmos-batch status`: a table of jobs, or all that is known of the named ones."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain, islice

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.job_snapshot import JobObserver, no_such_job
from cosmos_batch.cli.job_summary import STATES, JobFilter, JobSummary, parse_since, recent_jobs, summarize
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.options import pipeline_ids
from cosmos_batch.cli.stopped_clouds.lookup import Kept, RunDeployments, find_with_kept
from cosmos_batch.state import FINAL

WIDTH = 100  # columns of the table
REASON_LINES, CUT = 3, " [...]"
PAGE = 20  # jobs
FILTERS = "Which jobs"


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch status",
        "cosmos-batch status ID",
        "cosmos-batch status --state failed --since 2h",
        "cosmos-batch status --text cam0 --limit 100 --json",
    ],
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option(
    "--state",
    "states",
    type=click.Choice(STATES, case_sensitive=False),
    multiple=True,
    section=FILTERS,
    help="In this state. May be given again.",
)
@option("--pipeline", metavar="ID", section=FILTERS, help="Of this pipeline.", shell_complete=pipeline_ids())
@option("--since", metavar="TIME", section=FILTERS, help="Submitted since then: 30m, 2h, 7d ago, or 2026-11-20T12:00.")
@option("--text", metavar="TEXT", default="", section=FILTERS, help="With this text in id, input, document or reason.")
@option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    default=PAGE,
    show_default=True,
    section=FILTERS,
    help="So many jobs on a page.",
)
@option("--page", metavar="N", type=click.IntRange(1), default=1, section=FILTERS, help="The second page, or another.")
@option("--json", "as_json", is_flag=True, help="Print all that is known, as JSON.")
def command(
    ids: tuple[str, ...],
    states: tuple[str, ...],
    pipeline: str | None,
    since: str | None,
    text: str,
    limit: int,
    page: int,
    as_json: bool,
) -> int:
    """List jobs, newest first, with the reason of each that failed or waits. Named jobs are shown in detail."""
    wanted = JobFilter(states, pipeline, parse_since(since) if since else None, text)
    if ids and wanted != JobFilter():
        raise WrongCall("The command both names jobs and filters them.", "Name jobs, or filter all of them.")
    deployment, kept = find_with_kept()
    if ids:
        jobs, has_more = [_job_with_id(deployment, kept, job_id) for job_id in ids], False
    else:
        first = (page - 1) * limit
        here = recent_jobs(deployment, wanted) if deployment else iter(())
        matches = list(islice(chain(here, kept.jobs.list(wanted) if kept else ()), first, first + limit + 1))
        jobs, has_more = matches[:limit], len(matches) > limit
    if as_json:
        print(json.dumps([job.to_json() for job in jobs], indent=2, ensure_ascii=False))
    elif ids:
        print("\n\n".join(_details(job) for job in jobs))
    elif jobs:
        print("\n".join(_table(jobs)))
    else:
        print("No job was ever submitted here." if wanted == JobFilter() and page == 1 else "No job matches.")
        if any(RunDeployments(deployment, kept).list()):
            inform("There are runs, whose files are no jobs of this list: cosmos-batch runs list")
    if has_more and not as_json:
        inform(f"There are more: --page {page + 1}, or --limit {limit * 5}")
    return 0


def _job_with_id(deployment: Deployment | None, kept: Kept | None, job_id: str) -> JobSummary:
    """Return the job with this id, and for one that has not ended what it waits for, such as a worker.

    Raises CliError where there is no such job.
    """
    if kept and (job := kept.job(job_id)):
        return job
    if deployment is None:
        raise no_such_job(job_id)
    job = summarize(deployment, job_id)
    if job.state in FINAL or job.waits_for:
        return job
    return replace(job, waits_for=JobObserver(deployment, job.id).look().waits_for())


def _table(jobs: list[JobSummary]) -> list[str]:
    """Return the lines of the table, each of at most WIDTH columns, but for an id that is longer."""
    rows = [("ID", "STATE", "AGE", "INPUT"), *((job.id, _state(job), _age(job), job.input) for job in jobs)]
    widths = [max(cell_len(row[column]) for row in rows) for column in range(3)]
    room = max(12, WIDTH - sum(widths) - 6)
    lines = []
    for row, job in zip(rows, [None, *jobs], strict=True):
        cells = [set_cell_size(cell, width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, _shortened(row[3], room)]).rstrip())
        if job is not None and job.reason:
            lines += [f"    {line}" for line in _wrapped(job.reason, WIDTH - 4)]
    return lines


def _details(job: JobSummary) -> str:
    """Return the details of a job in words, one on each line."""
    stages = ", ".join(f"{name} {time[11:19]}" for name, time in job.stages.items())
    attempts = str(job.attempts) if job.attempts else ""
    request = json.dumps(job.request, ensure_ascii=False) if job.request else ""
    fields = {
        "state": _state(job), "pipeline": job.pipeline, "input": job.input, "request": request,
        "submitted": f"{job.submitted_at[:19]} UTC",
        "stages (UTC)": stages, "attempts": attempts, "worker": job.worker, "document": job.document,
        "waits for": job.waits_for, "error": job.reason if job.error else "",
    }  # fmt: skip
    return "\n".join([job.id, *(f"  {name:13} {text}" for name, text in fields.items() if text)])


def _state(job: JobSummary) -> str:
    return f"{job.state} {job.steps}".rstrip()


def _age(job: JobSummary) -> str:
    seconds = (datetime.now(UTC) - datetime.fromisoformat(job.submitted_at)).total_seconds()
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{max(0, seconds):.0f} s"


def _wrapped(text: str, width: int) -> list[str]:
    """Return the first lines of a text that is broken between words. Some characters take two columns."""
    lines = [line.plain.rstrip() for line in Text(" ".join(text.split())).wrap(Console(), width)]
    if len(lines) > REASON_LINES:
        last = set_cell_size(lines[REASON_LINES - 1], width - cell_len(CUT)).rstrip()
        return [*lines[: REASON_LINES - 1], f"{last}{CUT}"]
    return lines


def _shortened(text: str, room: int) -> str:
    """Return the end of a text, where names differ, in `room` columns. Some characters take two columns."""
    if cell_len(text) <= room:
        return text
    end = text[-room + 1 :]
    while cell_len(end) > room - 1:
        end = end[1:]
    return f"…{end}"
