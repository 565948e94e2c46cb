"""Benchmark of the reasoner beside raw vLLM: both have the GPU in turn, several times, so that each shows its spread.

    python -m benchmarks.reasoner.turns --work FOLDER --into FILE [--shape 2b] [--clips 1000] [--rounds 3]

A round starts `benchmarks.reasoner.comparison` with raw vLLM, and then `benchmarks.reasoner.gpu` with our worker, for a
pass each. What they build and compile stays in the folder for the next round. Results are written after each round.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.machine import circumstances, software


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.turns", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "2b", "8b"), default="2b")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=1000, help="of a pass; more than 256 are these once more")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    options.work.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {**circumstances(), **software("vllm", "torch"), "shape": options.shape, "rounds": []}
    for number in range(1, options.rounds + 1):
        both = ["--shape", options.shape, "--work", str(options.work)]
        of_raw = _found("comparison", *both, "--steps", "raw", "--passes", "1", "--clips", str(options.clips))
        of_worker = _found("gpu", *both, "--passes", "0", "--steady", str(options.clips))
        results["rounds"].append({"raw": of_raw["raw"], "worker": of_worker["bf16"]})
        options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"round {number} of {options.rounds} is done", file=sys.stderr, flush=True)


def _found(benchmark: str, *options: str) -> dict[str, Any]:
    """Run another benchmark in a process of its own, and return its results."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "found.json"
        command = [sys.executable, "-m", f"benchmarks.reasoner.{benchmark}", *options, "--into", str(into)]
        subprocess.run(command, check=True)
        found: dict[str, Any] = json.loads(into.read_text(encoding="utf-8"))
        return found


if __name__ == "__main__":
    main()
