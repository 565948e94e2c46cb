"""Benchmark of importing each Lambda's handler with a warm page cache, without the interpreter's own start."""

import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.measurement import Measurement

HANDLERS = ("upload", "vams", "plan", "report", "scale", "dead_letter")
RUNS = 7
LIMIT_MS = 400
ROOT = Path(__file__).parents[2]

_CODE = (
    "import time; began = time.perf_counter(); import lambdas.handlers.{}; print((time.perf_counter() - began) * 1000)"
)


def measure() -> list[Measurement]:
    """Import each handler in new interpreters: the median of `RUNS` after one run that fills the page cache."""
    return [_of(handler) for handler in HANDLERS]


def _of(handler: str) -> Measurement:
    milliseconds = [_once(handler) for _ in range(RUNS + 1)][1:]
    median = statistics.median(milliseconds)
    return Measurement(
        name=f"import of lambdas.handlers.{handler}",
        value=f"{median:.0f} ms (median of {RUNS})",
        limit=f"at most {LIMIT_MS} ms",
        met=median <= LIMIT_MS,
        raw={"milliseconds": milliseconds},
    )


def _once(handler: str) -> float:
    command = [sys.executable, "-c", _CODE.format(handler)]
    return float(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
