"""`cosmos-batch status` and `cosmos-batch result`: what became of jobs."""

import argparse
import json
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands.result import find_job
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import waits_for_server
from cosmos_batch.cli.worker_failures import find_worker_failure

RECENT = 20
HEAD = ["ID", "STATE", "PIPELINE", "INPUT", "WORKER", "STAGES (UTC)", "WAITS FOR"]


@dataclass(frozen=True)
class Line:
    """One job in the table of `status`."""

    id: str
    state: str
    pipeline: str
    input: str
    worker: str
    stages: dict[str, str]
    steps: str = ""
    waits_for: str = ""

    def cells(self) -> list[str]:
        """As people read it."""
        stages = " ".join(f"{name}={time[11:19]}" for name, time in self.stages.items())
        state = f"{self.state} {self.steps}".rstrip()
        return [self.id, state, self.pipeline, self.input, self.worker, stages, self.waits_for]


def status(arguments: argparse.Namespace) -> int:
    """Print the named jobs, or the recent ones."""
    deployment = deployments.find()
    lines = [_line(deployment, job_id) for job_id in arguments.ids or _recent(deployment)]
    lines = _with_troubles(deployment, lines)
    if arguments.json:
        print(json.dumps([vars(line) for line in lines], indent=2))
    elif lines:
        _print_table([HEAD, *(line.cells() for line in lines)])
    else:
        print("No job was ever submitted here.")
    return 0


def _recent(deployment: Deployment) -> list[str]:
    """The ids of the latest jobs, newest first."""
    paginator = deployment.clients("stepfunctions").get_paginator("list_executions")
    pages = paginator.paginate(stateMachineArn=deployment.state_machine_arn, PaginationConfig={"MaxItems": RECENT})
    executions: Any = (execution for page in pages for execution in page["executions"])
    return [execution["name"] for execution in islice(executions, RECENT)]


def _line(deployment: Deployment, job_id: str) -> Line:
    """A row tells more than its execution; a request that was refused, or is not planned yet, has only the latter."""
    execution, row = find_job(deployment, job_id)
    if row is None:
        request = execution.request
        return Line(job_id, execution.status, request.get("pipeline", ""), request.get("input", ""), "", {})
    attempt = row.open_attempt
    steps = f"{attempt.steps_done}/{attempt.steps}" if attempt is not None and attempt.steps else ""
    waits_for = waits_for_server(row) or ""
    return Line(job_id, row.state, row.pipeline, row.input or "", row.worker or "", row.stages, steps, waits_for)


def _with_troubles(deployment: Deployment, lines: list[Line]) -> list[Line]:
    """Each line of a job that waits for a worker, with what keeps the workers of its pipeline from serving."""
    waiting = {line.pipeline for line in lines if line.state == "PLANNED"}
    troubles = {pipeline: find_worker_failure(deployment.workers(pipeline)) for pipeline in waiting}
    return [
        replace(line, waits_for=str(trouble))
        if line.state == "PLANNED" and not line.waits_for and (trouble := troubles[line.pipeline]) is not None
        else line
        for line in lines
    ]


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
