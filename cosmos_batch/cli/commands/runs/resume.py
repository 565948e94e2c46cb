"""`cosmos-batch runs resume`: go on with a run."""

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.runs.watch import watch
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.executions import resume_run
from cosmos_batch.cli.runs.wording import counts_in_words
from cosmos_batch.cli.stopped_clouds.lookup import refuse_kept_run
from cosmos_batch.cli.worker_failures import print_worker_failures


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch runs resume RUN", "cosmos-batch runs resume RUN --max-dollars 100 --watch"],
)
@click.argument("run", metavar="RUN")
@option("--max-dollars", metavar="X", type=click.FloatRange(min=0, min_open=True), help="Set another budget.")
@option("--watch", "follow", is_flag=True, help="Follow it until it has ended.")
def command(run: str, max_dollars: float | None, follow: bool) -> int:
    """Go on with a run that is held, was cancelled, has failed, or whose start was interrupted.

    What has ended stays, and costs nothing again.
    """
    refuse_kept_run(run)
    deployment = deployments.find()
    state = resume_run(deployment, run, max_dollars)
    print(f"{run} {state.name}")
    inform(counts_in_words(state.counts))
    print_worker_failures(deployment, state.row.pipelines if state.row else [])
    return watch(deployment, run) if follow else 0
