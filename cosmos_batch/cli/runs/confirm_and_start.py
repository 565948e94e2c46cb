"""Show the plan of a run, ask whether to proceed, and start it."""

import json
import sys

import click

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.checkup import warn_of_findings
from cosmos_batch.cli.errors import INTERRUPTED, WrongCall
from cosmos_batch.cli.messages import inform, warn
from cosmos_batch.cli.runs.executions import begin_run, check_is_new
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.run_plan import PlannedRun, plan_run
from cosmos_batch.cli.runs.run_request import RunSpec
from cosmos_batch.cli.stopped_clouds.lookup import refuse_kept_run
from cosmos_batch.cli.worker_failures import print_worker_failures


def start_run(deployment: Deployment, spec: RunSpec, yes: bool, as_json: bool) -> str:
    """Plan a run, ask the person, start it, print its id, and return that. Raises WrongCall, or Exit for a no."""
    planned = plan_and_begin(deployment, spec, show=not as_json, ask=not yes)
    _print_started(planned, as_json)
    print_worker_failures(deployment, planned.request.pipelines)
    return planned.request.id


def plan_and_begin(deployment: Deployment, spec: RunSpec, show: bool = True, ask: bool = False) -> PlannedRun:
    """Plan a run, show the plan and ask the person if wanted, and start it. Raises WrongCall, or Exit for a no."""
    refuse_kept_run(spec.request.id)
    check_is_new(deployment, spec.request.id)
    planned = plan_run(deployment, spec)
    try:
        if show:
            inform("\n".join(plan_lines(planned.request.id, planned.estimate)))
        planned.refuse_over_budget()
        warn_of_findings(deployment, planned.request.pipelines)
        if ask:
            _ask()
        planned.write()
    finally:
        planned.close()
    begin_run(deployment, planned.request.id)
    return planned


def _ask() -> None:
    """Ask whether to proceed. Raises Exit for a no, and WrongCall where nobody can answer."""
    if not sys.stdin.isatty():
        raise WrongCall(
            "The plan was not confirmed, because there is no terminal to ask at.", "Read the plan, and add --yes."
        )
    if not click.confirm("Proceed?", err=True):
        warn("Nothing was started.")
        raise click.exceptions.Exit(INTERRUPTED)


def _print_started(planned: PlannedRun, as_json: bool) -> None:
    run = planned.request.id
    if as_json:
        print(json.dumps({"id": run, "plan": planned.estimate.model_dump(mode="json")}, indent=2))
        return
    print(run)
    inform(f"It runs without this machine. To follow it: cosmos-batch runs watch {run}")
