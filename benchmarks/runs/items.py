"""Benchmark of a run of 10,000 files on the local cloud with an engine that answers at once; 1 % of the files are bad.

It measures items per second, the first line of results, the peak memory of each part, and counts every call to AWS.
Usage: `python -m benchmarks.runs.items [ITEMS]`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.measurement import Measurement, told
from benchmarks.results import measured
from benchmarks.runs.calls import Bill
from benchmarks.runs.deployment import RunsApp, deployed
from benchmarks.runs.process_memory import PeakMemory
from tests.support.deployed_app import wait_for

ITEMS = 10_000
RUN = "measured"


def measure(items: int) -> list[Measurement]:
    """Do a run over this number of files, and return its time, memory, calls and results."""
    with deployed(items) as runs_app:
        memory, before = PeakMemory(runs_app.app.folder / "home"), Bill.read(runs_app.app)
        began = time.monotonic()
        with memory.watched():
            runs_app.run_command(*runs_app.start_arguments(RUN))
            started = time.monotonic() - began
            _wait_for_first_line(runs_app)
            first_line = time.monotonic() - began
            runs_app.wait_until_ended(RUN)
        seconds = time.monotonic() - began
        bill = Bill.read(runs_app.app).since(before)
        table, inferences = runs_app.table(RUN), runs_app.inferences()
    return [
        Measurement(
            name=f"a run of {items:,} items, 1 % of them bad",
            value=f"{table.text}, {len(inferences):,} inferences",
            limit="each item once",
            met=table.is_exact(items) and len(inferences) == table.answers,
            raw={"table": vars(table), "inferences": len(inferences)},
        ),
        Measurement(
            name="items per second, from the command to the summary",
            value=f"{items / seconds:.1f} ({items:,} in {seconds:.0f} s)",
            limit="none",
            met=True,
            raw={"seconds": seconds, "startSeconds": started},
        ),
        Measurement(
            name="first line of results, after the command was typed",
            value=f"{first_line:.0f} s",
            limit="none",
            met=True,
            raw={"seconds": first_line},
        ),
        Measurement(
            name="peak memory",
            value=", ".join(f"{part} {peak:.0f} MiB" for part, peak in sorted(memory.peaks.items())),
            limit="none",
            met=True,
            raw={"mebibytes": memory.peaks},
        ),
        Measurement(
            name="calls and transitions",
            value=f"{bill.calls / items:.1f} calls for each item",
            limit="none",
            met=True,
            raw={"items": items, **asdict(bill)},
        ),
    ]


def _wait_for_first_line(runs_app: RunsApp) -> None:
    wait_for(lambda: next(runs_app.objects(RUN).lines("results"), None), 3600, "no line of results")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.runs.items", description=__doc__)
    parser.add_argument("items", type=int, nargs="?", default=ITEMS)
    return parser.parse_args(arguments)


def main() -> int:
    """Run the benchmark, store the results, and return 1 if a limit is not met, else 0."""
    items = parse(sys.argv[1:]).items
    results = measured(lambda: measure(items))
    results.keep("runs-items" if items == ITEMS else f"runs-items-{items}")
    return told(results.measured)


if __name__ == "__main__":
    sys.exit(main())
