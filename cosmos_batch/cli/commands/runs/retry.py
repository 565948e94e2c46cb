"""`cosmos-batch runs retry`: ask again what failed in a run."""

from typing import get_args

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.commands.runs.watch import watch
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.retry_run import retry_run
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.stopped_clouds.lookup import refuse_kept_run
from cosmos_batch.cli.worker_failures import print_worker_failures
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import ErrorCode


@click.command(
    cls=CosmosCommand,
    examples=[
        "cosmos-batch runs retry RUN --failed",
        "cosmos-batch runs retry RUN --code TimedOut --code NoCapacity --watch",
    ],
)
@click.argument("run", metavar="RUN")
@option("--failed", is_flag=True, help="Ask again all that failed, or was cancelled while it was under way.")
@option("--code", "codes", metavar="CODE", type=click.Choice(get_args(ErrorCode)), multiple=True,
        help="Ask again what failed with this code, such as TimedOut. May be given again.")  # fmt: skip
@option(
    "--max-dollars",
    metavar="X",
    type=click.FloatRange(min=0, min_open=True),
    help="Send no more items once X dollars are spent or in flight.",
)
@option("--name", metavar="RUN", help="Name the new run; default: run- and the time.")
@option("--watch", "follow", is_flag=True, help="Follow it until it has ended.")
def command(
    run: str, failed: bool, codes: tuple[str, ...], max_dollars: float | None, name: str | None, follow: bool
) -> int:
    """Start a new run over the items of RUN that have failed or were cancelled, and print its id.

    The files are taken as they are now, so that one that was damaged can be replaced first.
    """
    if not failed and not codes:
        raise WrongCall("Nothing says what to ask again.", "--failed: everything that failed; or --code with a code.")
    refuse_kept_run(run)
    if name is not None:
        refuse_kept_run(name)
    deployment = deployments.find()
    new, count = retry_run(deployment, run, codes, max_dollars, name)
    print(new)
    inform(f"Asked again: {counted(count, 'item')} of {run}.")
    print_worker_failures(deployment, stored_run(deployment, run).request().pipelines)
    return watch(deployment, new) if follow else 0
