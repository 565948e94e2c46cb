"""`cosmos-batch runs diff`: show the answers in which two runs differ."""

import json
from itertools import islice

import click

from cosmos_batch.cli.command_line import CosmosCommand, option
from cosmos_batch.cli.messages import inform
from cosmos_batch.cli.runs.comparison import (
    FAILS_IN_BOTH,
    SAME,
    ComparedItem,
    Difference,
    KeyKind,
    RunComparison,
    compared,
)
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments

SHOWN = 20  # differences
_ANSWER_WIDTH = 96  # characters of an answer


@click.command(
    cls=CosmosCommand,
    examples=["cosmos-batch runs diff RUN1 RUN2", "cosmos-batch runs diff RUN1 RUN2 --by input --json > changed.json"],
)
@click.argument("first", metavar="RUN1")
@click.argument("second", metavar="RUN2")
@option("--by", type=click.Choice(["id", "input"]), default="id", show_default=True, help="What tells items apart.")
@option(
    "--limit", metavar="N", type=click.IntRange(0), default=SHOWN, show_default=True, help="Show at most N differences."
)
@option("--json", "as_json", is_flag=True, help="Print all differences and their counts as JSON.")
def command(first: str, second: str, by: KeyKind, limit: int, as_json: bool) -> int:
    """Show which answers differ between two runs over the same files: with another prompt, or another model.

    Answers with parsed data are compared by it, others by their text, and generated files by their contents.
    """
    deployments = find_run_deployments()
    runs = stored_run(deployments.having(first), first), stored_run(deployments.having(second), second)
    with compared(*runs, by) as comparison:
        if as_json:
            _print_json(first, second, comparison)
        else:
            _print_text(comparison, limit)
        _inform(runs, comparison.counts(), by)
    return 0


def _print_json(first: str, second: str, comparison: RunComparison) -> None:
    """Print one object, difference by difference."""
    counts = json.dumps(comparison.counts())
    print(f'{{"first": {json.dumps(first)}, "second": {json.dumps(second)}, "counts": {counts}, "differences": [')
    for number, difference in enumerate(comparison.differences()):
        print(f"{',' if number else ''}{json.dumps(difference.to_json(), ensure_ascii=False)}")
    print("]}")


def _print_text(comparison: RunComparison, limit: int) -> None:
    counts = comparison.counts()
    for change, count in counts.items():
        print(f"{count:>9,}  {change}")
    for difference in islice(comparison.differences(), limit):
        print(_described(difference))
    left = sum(counts.values()) - counts.get(SAME, 0) - counts.get(FAILS_IN_BOTH, 0) - limit
    if left > 0:
        inform(f"{left:,} more: --limit {limit * 10}, or --json for all of them")


def _described(difference: Difference) -> str:
    ends = [f"  {sign} {_end(end)}" for sign, end in (("-", difference.first), ("+", difference.second)) if end]
    return "\n".join(["", f"{difference.id}  {difference.change}", *ends])


def _end(end: ComparedItem) -> str:
    text = f"error: {end.error}" if end.error else " ".join((end.answer or "(no text)").split())
    return text if len(text) <= _ANSWER_WIDTH else f"{text[: _ANSWER_WIDTH - 1]}…"


def _inform(runs: tuple[StoredRun, ...], counts: dict[str, int], by: KeyKind) -> None:
    """Print notes on items that differ only because a run has not ended, or because their ids differ."""
    for run in runs:
        if run.summary() is None:
            inform(f"{run.run} has not ended: items without an end yet count as absent.")
    if by == "id" and counts and all(change.startswith("only") for change in counts):
        inform("No item has the same id in both runs: --by input compares by file.")
