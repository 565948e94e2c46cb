"""Measure, keep the raw numbers in `benchmarks/results/`, and write `docs/benchmarks.md` from them.

Usage: `python -m benchmarks [--only NAME]`.
"""

import argparse
import sys

from benchmarks import deployment, imports, latency, page, throughput
from benchmarks.results import measured

MEASURES = {
    "foundation": lambda: [*imports.measure(), latency.measure(), throughput.measure()],
    "deployment": deployment.measure,
}


def main() -> int:
    """Returns 1 where a limit is not met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument("--only", choices=MEASURES, action="append", help="Measure this, and keep the rest as it is")
    results = {name: measured(MEASURES[name]) for name in parser.parse_args().only or MEASURES}
    for name, result in results.items():
        result.keep(name)
    page.PAGE.write_text(page.text(), encoding="utf-8")
    rows = [row for result in results.values() for row in result.measured]
    for row in rows:
        print(f"{'ok ' if row.met else 'NOT'} {row.name}: {row.value} ({row.limit})")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
