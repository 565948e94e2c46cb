"""`cosmos-batch status`: a table of jobs."""

import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import find_job, waits_for_server
from cosmos_batch.cli.worker_failures import find_worker_failure

RECENT = 20
HEAD = ["ID", "STATE", "PIPELINE", "INPUT", "WORKER", "STAGES (UTC)", "WAITS FOR"]


@dataclass(frozen=True)
class StatusLine:
    """One job in the table."""

    id: str
    state: str
    pipeline: str
    input: str
    worker: str
    stages: dict[str, str]
    steps: str = ""
    waits_for: str = ""

    def cells(self) -> list[str]:
        """Return the columns as text."""
        stages = " ".join(f"{name}={time[11:19]}" for name, time in self.stages.items())
        state = f"{self.state} {self.steps}".rstrip()
        return [self.id, state, self.pipeline, self.input, self.worker, stages, self.waits_for]


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch status", "cosmos-batch status ID", "cosmos-batch status --json"],
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(ids: tuple[str, ...], as_json: bool) -> int:
    """List the named jobs, or the recent ones."""
    deployment = deployments.find()
    lines = [_line(deployment, job_id) for job_id in ids or _recent(deployment)]
    lines = _with_worker_failures(deployment, lines)
    if as_json:
        print(json.dumps([vars(line) for line in lines], indent=2))
    elif lines:
        _print_table([HEAD, *(line.cells() for line in lines)])
    else:
        print("No job was ever submitted here.")
    return 0


def _recent(deployment: Deployment) -> list[str]:
    """Return the ids of the latest jobs, newest first."""
    paginator = deployment.clients("stepfunctions").get_paginator("list_executions")
    pages = paginator.paginate(stateMachineArn=deployment.state_machine_arn, PaginationConfig={"MaxItems": RECENT})
    executions: Any = (execution for page in pages for execution in page["executions"])
    return [execution["name"] for execution in islice(executions, RECENT)]


def _line(deployment: Deployment, job_id: str) -> StatusLine:
    """Return a job's line, from its row; without one (refused, or not planned yet), from its execution."""
    execution, row = find_job(deployment, job_id)
    if row is None:
        request = execution.request
        return StatusLine(job_id, execution.status, request.get("pipeline", ""), request.get("input", ""), "", {})
    attempt = row.open_attempt
    steps = f"{attempt.steps_done}/{attempt.steps}" if attempt is not None and attempt.steps else ""
    waits_for = waits_for_server(row) or ""
    return StatusLine(job_id, row.state, row.pipeline, row.input or "", row.worker or "", row.stages, steps, waits_for)


def _with_worker_failures(deployment: Deployment, lines: list[StatusLine]) -> list[StatusLine]:
    """Add to each line of a job that waits for a worker why the workers of its pipeline cannot serve."""
    waiting = {line.pipeline for line in lines if line.state == "PLANNED"}
    failures = {pipeline: find_worker_failure(deployment.workers(pipeline)) for pipeline in waiting}
    return [
        replace(line, waits_for=str(failure))
        if line.state == "PLANNED" and not line.waits_for and (failure := failures[line.pipeline]) is not None
        else line
        for line in lines
    ]


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
