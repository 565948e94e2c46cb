"""`cosmos-batch runs cancel`: stop runs."""

import click

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.errors import WrongCall
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.executions import cancel_run
from cosmos_batch.cli.runs.run_snapshot import read_run_snapshot
from cosmos_batch.cli.stopped_clouds.lookup import refuse_kept_run
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Error

ERROR = Error(
    code="Cancelled",
    message="The run was stopped with `cosmos-batch runs cancel`.",
    remedy="`cosmos-batch runs resume` goes on with it.",
)


@click.command(cls=CosmosCommand, examples=["cosmos-batch runs cancel RUN", "cosmos-batch runs cancel RUN RUN"])
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
def command(runs: tuple[str, ...]) -> int:
    """Stop runs. Items that wait are not asked; those under way are dropped, unless another run waits for them too.

    What was answered stays, and `runs resume` goes on with the rest. Runs that have ended stay as they are.
    """
    for run in runs:
        refuse_kept_run(run)
    deployment = deployments.find()
    states = [read_run_snapshot(deployment, run) for run in runs]
    for state in states:
        if state.row is None:
            raise WrongCall(f"{state.run} has not begun.", f"See why: cosmos-batch runs show {state.run}")
    for state in states:
        row = cancel_run(deployment, state.run, ERROR)
        if row.state != "CANCELLED" or row.ended_at is not None:
            print(f"{state.run} {row.state} already")
            continue
        print(f"{state.run} CANCELLED")
        inform(
            f"Ended before: {state.counts.done:,} of {counted(state.counts.items, 'item')}; what was answered stays."
        )
    return 0
