"""Simulate runs of a million clips, plan each, and store the results and a plot.

Usage: `python -m benchmarks.simulation.million_clips`, which writes `docs/runs.svg` and the results.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import FOLDER
from benchmarks.simulation.plans import compare, pace_of_another_run
from benchmarks.simulation.plot import plot
from benchmarks.simulation.runs import RunOutcome, RunSimulation
from benchmarks.simulation.times import VARIED
from cosmos_batch.contract.runs import SHARD_ITEMS
from cosmos_batch.planning.runs.service_costs import UNITS_PER_ITEM

PLOT, RESULTS = Path(__file__).parents[2] / "docs" / "runs.svg", FOLDER / "runs-simulation.json"
ITEMS, WORKERS = 1_000_000, (16, 80, 400)
PROCESSES = 2
POINTS = 300  # how many points each line of the plot has
IDLE_LIMIT, PLAN_LIMIT = 0.05, 0.15
# By what is counted: AWS's limit, and its page. Those of accounts can be raised.
LIMITS = {
    "children of the map at once": (10_000, "Step Functions service quotas"),
    "state transitions in a second": (800, "Step Functions service quotas, of the smaller regions"),
    "invocations of `feed` at once": (1000, "Lambda quotas, of an account"),
    "messages in the queue and in hand": (120_000, "Amazon SQS standard queue quotas: in flight"),
    "write units in a second to a run's partition": (1000, "Quotas in Amazon DynamoDB"),
    "write units in a second while the first shards are fed": (4000, "DynamoDB on-demand: a table without history"),
    "write units in a second when items end": (40_000, "Quotas in Amazon DynamoDB: a table"),
    "HEAD requests in a second": (5500, "S3 performance: a prefix"),
    "SubmitJob in an invocation of `scale`": (100, "two minutes of the function"),
}
# Write units with the largest rows: of an item's end to its run's partition, in the mean over a shard, whose row grows
# with each end; of a shard to that partition; and of an item that is fed. All are checked by
# tests/lambdas/runs/test_table_limits.py.
UNITS_PER_END, UNITS_PER_SHARD, UNITS_PER_FED_ITEM = 1.54, 22, 8
_TRANSITIONS_PER_SHARD = 3


def peaks(outcome: RunOutcome) -> dict[str, float]:
    """Return the peaks of a run, by the names of `LIMITS` with which they are compared."""
    ends = outcome.peak_ends_per_second
    fed = outcome.peak_fed_per_second
    return {
        "children of the map at once": outcome.peak_shards,
        "state transitions in a second": ends / SHARD_ITEMS * _TRANSITIONS_PER_SHARD,
        "invocations of `feed` at once": outcome.peak_feeding,
        "messages in the queue and in hand": outcome.peak_in_flight,
        "write units in a second to a run's partition": (ends * (UNITS_PER_END + UNITS_PER_SHARD / SHARD_ITEMS)),
        "write units in a second while the first shards are fed": fed * UNITS_PER_FED_ITEM,
        "write units in a second when items end": ends * UNITS_PER_ITEM["dynamodb.write"],
        "HEAD requests in a second": fed,
        "SubmitJob in an invocation of `scale`": outcome.peak_starts,
    }


def row_of(outcome: RunOutcome, seconds_per_unit: float) -> dict[str, Any]:
    """Return the row that is stored for a simulated run and its plan."""
    planned, hours_off, dollars_off = compare(outcome, seconds_per_unit)
    kept = {name: value for name, value in asdict(outcome).items() if name != "workers"}
    return {
        **kept,
        "idle_share": outcome.steady.idle / outcome.steady.ready,
        "unused_share": 1 - outcome.steady.worked / outcome.steady.ready,
        "planned": asdict(planned),
        "hours_off": hours_off,
        "dollars_off": dollars_off,
        "peaks": peaks(outcome),
    }


def simulate(workers: int, seconds_per_unit: float) -> tuple[RunOutcome, dict[str, Any]]:
    """Simulate a run with this number of workers; return its outcome, and the row that is stored for it."""
    outcome = RunSimulation(ITEMS, workers).run()
    return outcome, row_of(outcome, seconds_per_unit)


def vary(name: str) -> dict[str, Any]:
    """Simulate the largest run with other times, and return the row that is stored for it."""
    return varied_row(name, RunSimulation(ITEMS, max(WORKERS), times=VARIED[name]).run())


def varied_row(name: str, outcome: RunOutcome) -> dict[str, Any]:
    """Return the row that is stored for a run with other times."""
    return {
        "name": name,
        "finished_at": outcome.finished_at,
        "dollars": outcome.dollars,
        "idle_share": outcome.steady.idle / outcome.steady.ready,
        "peaks": peaks(outcome),
    }


def thinned(outcome: RunOutcome) -> RunOutcome:
    """Leave out points that a plot cannot show."""
    every = max(1, len(outcome.workers) // POINTS)
    outcome.workers = [*outcome.workers[::every], outcome.workers[-1]]
    return outcome


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulation.million_clips", description=__doc__)
    return parser.parse_args(arguments)


def main() -> int:
    """Simulate the runs, print and store their results, and plot their workers."""
    parse(sys.argv[1:])
    pace = pace_of_another_run()
    with ProcessPoolExecutor(PROCESSES) as pool:
        simulated = list(pool.map(simulate, WORKERS, [pace] * len(WORKERS)))
        varied = list(pool.map(vary, VARIED))
    outcomes, rows = zip(*simulated, strict=True)
    for row in rows:
        print(
            f"{row['name']}: {row['finished_at'] / 3600:.1f} h, ${row['dollars']:,.0f}, idle {row['idle_share']:.1%}; "
            f"the plan is {row['hours_off']:+.0%} off in hours and {row['dollars_off']:+.0%} in dollars"
        )
    RESULTS.write_text(json.dumps({"pace": pace, "runs": rows, "varied": varied}, indent=1) + "\n", encoding="utf-8")
    PLOT.write_text(plot([thinned(outcome) for outcome in outcomes]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
