"""Simulate runs of a million clips, plan each, and keep what was found and a plot.

Usage: `python -m benchmarks.runs_simulation_results`, which writes `docs/runs.svg` and the results.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import FOLDER
from benchmarks.runs_simulation import FEED_SECONDS, RunOutcome, RunSimulation
from benchmarks.runs_simulation_plan import compare, pace_of_another_run
from benchmarks.scaling_plot import plot
from cosmos_batch.contract.runs import SHARD_ITEMS

PLOT, RESULTS = Path(__file__).parent.parent / "docs" / "runs.svg", FOLDER / "runs-simulation.json"
ITEMS, WORKERS = 1_000_000, (16, 80, 400)
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
    "HEAD requests in a second while the first shards are fed": (5500, "S3 performance: a prefix"),
    "SubmitJob in an invocation of `scale`": (100, "two minutes of the function"),
}
UNITS_PER_END = 3  # checked by tests/lambdas/runs/test_table_limits.py
_TRANSITIONS_PER_SHARD, _ROWS_PER_ITEM = 3, 2


def peaks(outcome: RunOutcome) -> dict[str, float]:
    """Return what is compared with each of `LIMITS`."""
    fed_per_second = outcome.peak_shards * SHARD_ITEMS / FEED_SECONDS
    return {
        "children of the map at once": outcome.peak_shards,
        "state transitions in a second": outcome.peak_ends_per_second / SHARD_ITEMS * _TRANSITIONS_PER_SHARD,
        "invocations of `feed` at once": outcome.peak_shards,
        "messages in the queue and in hand": outcome.peak_in_flight,
        "write units in a second to a run's partition": outcome.peak_ends_per_second * UNITS_PER_END,
        "write units in a second while the first shards are fed": fed_per_second * _ROWS_PER_ITEM,
        "HEAD requests in a second while the first shards are fed": fed_per_second,
        "SubmitJob in an invocation of `scale`": outcome.peak_starts,
    }


def row_of(outcome: RunOutcome, seconds_per_unit: float) -> dict[str, Any]:
    """Return what is kept of a simulated run and of its plan."""
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
    """Simulate a run with so many workers; return it, and what is kept of it."""
    outcome = RunSimulation(ITEMS, workers).run()
    return outcome, row_of(outcome, seconds_per_unit)


def thinned(outcome: RunOutcome) -> RunOutcome:
    """Leave out points that a plot cannot show."""
    every = max(1, len(outcome.workers) // POINTS)
    outcome.workers = [*outcome.workers[::every], outcome.workers[-1]]
    return outcome


def main() -> int:
    """Simulate, print, store and plot."""
    pace = pace_of_another_run()
    with ProcessPoolExecutor(len(WORKERS)) as pool:
        simulated = list(pool.map(simulate, WORKERS, [pace] * len(WORKERS)))
    outcomes, rows = zip(*simulated, strict=True)
    for row in rows:
        print(
            f"{row['name']}: {row['finished_at'] / 3600:.1f} h, ${row['dollars']:,.0f}, idle {row['idle_share']:.1%}; "
            f"the plan is {row['hours_off']:+.0%} off in hours and {row['dollars_off']:+.0%} in dollars"
        )
    RESULTS.write_text(json.dumps({"pace": pace, "runs": rows}, indent=1) + "\n", encoding="utf-8")
    PLOT.write_text(plot([thinned(outcome) for outcome in outcomes]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
