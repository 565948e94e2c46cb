"""`cosmos-batch runs list`: list all runs of a deployment."""

import json
from itertools import islice

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot, quick_run_snapshot
from cosmos_batch.cli.runs.wording import dollars_in_words
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments

PAGE = 20  # runs
STATES = ("starting", "running", "held", "succeeded", "cancelled", "failed")


@click.command(cls=CosmosCommand, examples=["cosmos-batch runs list", "cosmos-batch runs list --state held --json"])
@option("--state", "states", type=click.Choice(STATES), multiple=True, help="In this state. May be given again.")
@option("--limit", metavar="N", type=click.IntRange(1), default=PAGE, show_default=True, help="So many runs.")
@option("--json", "as_json", is_flag=True, help="Print all that is known, as JSON.")
def command(states: tuple[str, ...], limit: int, as_json: bool) -> int:
    """List runs, newest first, with the reason of each that is held, cancelled or failed."""
    deployments = find_run_deployments()
    wanted = (run for run in deployments.list() if not states or run[1].state.lower() in states)
    matching = list(islice(wanted, limit + 1))
    runs = [quick_run_snapshot(deployment, row) for deployment, row in matching[:limit]]
    if as_json:
        print(json.dumps([run.to_json() for run in runs], indent=2, ensure_ascii=False))
    elif runs:
        print("\n".join(_table(runs, deployments.is_local)))
    else:
        print("No run matches." if states else "No run was ever started here.")
    if len(matching) > limit and not as_json:
        inform(f"There are more: --limit {limit * 5}")
    return 0


def _table(runs: list[RunSnapshot], is_local: bool) -> list[str]:
    cost = "COST ON AWS" if is_local else "COST"
    rows = [("ID", "STATE", "STARTED (UTC)", "DONE", "FAILED", cost, "INPUTS"), *map(_cells, runs)]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = []
    for row, run in zip(rows, [None, *runs], strict=True):
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)).rstrip())
        if run is not None and run.row is not None and run.row.reason:
            lines.append(f"    {run.row.reason}")
    return lines


def _cells(run: RunSnapshot) -> tuple[str, ...]:
    row, counts = run.row, run.counts
    assert row is not None, "runs are listed by their rows"
    return (
        run.run,
        run.name,
        row.started_at[:16].replace("T", " "),
        f"{counts.done:,} of {counts.items:,}",
        f"{counts.failed:,}",
        dollars_in_words(counts.dollars),
        row.origin or "",
    )
