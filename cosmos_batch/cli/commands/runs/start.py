"""`cosmos-batch runs start`: start a run after its plan was agreed to."""

import json
import sys
from typing import Any

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.runs.watch import watch
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.doctor.checkup import warn_of_findings
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.asked import AskedRun, read_asked_run
from cosmos_batch.cli.runs.options import run_options
from cosmos_batch.cli.runs.plan import PlannedRun, plan_run
from cosmos_batch.cli.runs.plan_report import plan_lines
from cosmos_batch.cli.runs.starting import begin_run, check_is_new
from cosmos_batch.cli.worker_failures import print_worker_failures


@click.command(
    cls=CosmosCommand,
    examples=[
        'cosmos-batch runs start clips/ --prompt "What happens?" --max-dollars 50',
        "cosmos-batch runs start s3://my-bucket/clips/ --task caption --yes --watch",
        "cosmos-batch runs start requests.jsonl --name monday --yes",
    ],
)
@run_options
@option("--yes", is_flag=True, help="Do not ask whether to proceed.")
@option("--watch", "follow", is_flag=True, help="Follow it until it has ended.")
@option("--json", "as_json", is_flag=True, help="Print the id and the plan as one JSON object.")
def command(sources: tuple[str, ...], yes: bool, follow: bool, as_json: bool, **options: Any) -> int:
    """Show the plan of a run over the files of each SOURCE, ask whether to proceed, and start it.

    What was answered before costs nothing: a run that is started again, after whatever interrupted it, goes on.
    """
    deployment = deployments.find()
    run = start_run(deployment, read_asked_run(deployment, sources, options), yes, as_json)
    return watch(deployment, run) if follow else 0


def start_run(deployment: Deployment, asked: AskedRun, yes: bool, as_json: bool) -> str:
    """Plan a run, ask the person, start it, print its id, and return that. Raises WrongCall, or Abort for a no."""
    check_is_new(deployment, asked.request.id)
    planned = plan_run(deployment, asked)
    try:
        if not as_json:
            inform("\n".join(plan_lines(planned.request.id, planned.estimate)))
        planned.refuse_over_budget()
        warn_of_findings(deployment, planned.request.pipelines)
        if not yes:
            _ask()
        planned.write()
    finally:
        planned.close()
    run = planned.request.id
    begin_run(deployment, run)
    _print_started(planned, as_json)
    print_worker_failures(deployment, planned.request.pipelines)
    return run


def _ask() -> None:
    """Ask whether to proceed. Raises Abort for a no, and WrongCall where nobody can answer."""
    if not sys.stdin.isatty():
        raise WrongCall("Nobody can be asked whether to proceed.", "Look at the plan, and type --yes.")
    click.confirm("Proceed?", abort=True, err=True)


def _print_started(planned: PlannedRun, as_json: bool) -> None:
    run = planned.request.id
    if as_json:
        print(json.dumps({"id": run, "plan": planned.estimate.model_dump(mode="json")}, indent=2))
        return
    print(run)
    inform(f"It runs without this machine. To follow it: cosmos-batch runs watch {run}")
