"""Measure, keep the raw numbers in `benchmarks/results/`, and write the pages from them.

The pages are `docs/benchmarks.md` and the figures of the README. Usage: `python -m benchmarks [--only NAME]`.
"""

import argparse
import sys
from importlib.util import find_spec

from benchmarks import headlines, page
from benchmarks.app import deployment, imports, latency, throughput
from benchmarks.console import chromium as console
from benchmarks.generator import encoding
from benchmarks.measurement import told
from benchmarks.reasoner import comparison, decoding, preparing, scaling
from benchmarks.reasoner import figures as reasoner_figures
from benchmarks.reasoner import preemptions as reasoner_preemptions
from benchmarks.results import measured

MEASURES = {
    "foundation": lambda: [*imports.measure(), latency.measure(), *throughput.measure()],
    "decoding": lambda: [*decoding.measure(), *scaling.measure()],
    "preparing": preparing.measure,
    "encoding": encoding.measure,
    "deployment": deployment.measure,
    "console": console.measure,
}
REASONER = "reasoner"


def main() -> int:
    """Run the benchmarks. Returns 1 if a limit is not met, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write docs/benchmarks.md.")
    parser.add_argument(
        "--only", choices=[*MEASURES, REASONER], action="append", help="Measure this, and keep the rest as it is"
    )
    chosen = parser.parse_args().only or [*MEASURES, REASONER]
    results = {name: measured(MEASURES[name]) for name in chosen if name in MEASURES}
    for name, result in results.items():
        result.keep(name)
    if REASONER in chosen:
        _measure_reasoner()
    page.PAGE.write_text(page.text(), encoding="utf-8")
    headlines.write()
    return told([row for result in results.values() for row in result.measured])


def _measure_reasoner() -> None:
    if find_spec("vllm") is None:
        print("the reasoner is not measured: vLLM is not installed; `make .venv/vllm` says why")
        return
    measured(reasoner_preemptions.measure).keep("preemptions")
    comparison.measure_tiny()
    rates = reasoner_figures.rates(reasoner_figures.kept("tiny"))
    print(f"ok  reasoner, tiny: (c) / (b) {rates.of_raw:.2f}, (c) / (a) {rates.of_processes:.0f}")


if __name__ == "__main__":
    sys.exit(main())
