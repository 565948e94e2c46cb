"""`cosmos-batch runs watch`: follow a run until it has ended."""

import click

from cosmos_batch.cli.command_line import CosmosCommand
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import FAILED, STILL_RUNNING
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.failure_kinds import failure_kinds, failure_lines
from cosmos_batch.cli.runs.next_steps import print_next_steps
from cosmos_batch.cli.runs.run_display import run_display
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot
from cosmos_batch.cli.runs.run_watcher import RunWatcher
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.runs.wording import cost_in_words, counts_in_words
from cosmos_batch.cli.stopped_clouds.lookup import find_with_run
from cosmos_batch.contract.run_keys import ERRORS


@click.command(cls=CosmosCommand, examples=["cosmos-batch runs watch RUN", "cosmos-batch runs watch RUN --quiet"])
@click.argument("run", metavar="RUN")
def command(run: str) -> int:
    """Show how far a run is, how fast, what it costs and what its workers do, until it has ended.

    The exit status is 0 if every item has an answer, 1 if some failed or the run did, and 3 if the run is held. Ctrl-C
    ends only what is shown.
    """
    return watch(find_with_run(run), run)


def watch(deployment: Deployment, run: str) -> int:
    """Follow a run, print its end, and return the exit status."""
    try:
        with run_display() as display:
            state = RunWatcher(deployment, run).watch(display)
    except KeyboardInterrupt:
        inform(f"The run goes on. To look again: cosmos-batch runs watch {run}")
        raise
    reason = f": {state.row.reason}" if state.row and state.row.reason else ""
    print(f"{run} {state.name}{reason}")
    print(f"  {counts_in_words(state.counts)}; {cost_in_words(deployment, state)}")
    kinds = failure_kinds(stored_run(deployment, run).lines(ERRORS)) if state.counts.failed else []
    for line in failure_lines(kinds):
        print(line)
    print_next_steps(state, goes_on=deployment.is_alive)
    return exit_status_of(state)


def exit_status_of(state: RunSnapshot) -> int:
    """Return the exit status that tells how a run ended."""
    if state.name == "HELD":
        return STILL_RUNNING
    return 0 if state.name == "SUCCEEDED" and state.counts.succeeded == state.counts.items else FAILED
