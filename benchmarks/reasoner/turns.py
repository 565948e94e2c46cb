"""Benchmark of the reasoner beside raw vLLM: both have the GPU in turn, several times, so that each shows its spread.

    python -m benchmarks.reasoner.turns --work FOLDER --into FILE [--shape 2b] [--clips 1000] [--rounds 3]
        [--lossy fp8,fp8Cache]

A round starts `benchmarks.reasoner.comparison` with raw vLLM and `benchmarks.reasoner.gpu` with our worker, for a pass
each; every other round starts with our worker. What they build and compile stays in the folder for the next round.
Results are written after each pass.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.machine import circumstances, software
from benchmarks.reasoner.precision import modes_named
from cosmos_batch.catalogue.generation import REASONERS_IN_FP8


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.turns", description=__doc__)
    parser.add_argument("--shape", choices=("2b", "8b"), default="2b")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=1000, help="of a pass; there are 256 different ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--lossy",
        type=partial(modes_named, REASONERS_IN_FP8),
        default=[],
        help="of both, by the names of a pipeline's configuration",
    )
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    for folder in (options.work, options.into.parent):
        folder.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {**circumstances(), **software("vllm", "torch")}
    results |= {"shape": options.shape, "clips": options.clips, "lossy": options.lossy, "rounds": []}
    measures = {"raw": _raw, "worker": _worker}
    for number in range(options.rounds):
        order = list(measures) if number % 2 == 0 else list(reversed(measures))
        passes: dict[str, Any] = {}
        results["rounds"].append(passes)
        for name in order:
            passes[name] = measures[name](options)
            options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"round {number + 1} of {options.rounds} is done", file=sys.stderr, flush=True)


def _raw(options: argparse.Namespace) -> Any:
    """Measure a pass of raw vLLM."""
    return _found(options, "comparison", "--steps", "raw", "--passes", "1", "--clips", str(options.clips))["raw"]


def _worker(options: argparse.Namespace) -> Any:
    """Measure a pass of our worker."""
    name = "-".join(options.lossy) or "bf16"
    return _found(options, "gpu", "--name", name, "--passes", "0", "--steady", str(options.clips))[name]


def _found(options: argparse.Namespace, benchmark: str, *more: str) -> dict[str, Any]:
    """Run another benchmark in a process of its own, and return its results."""
    with tempfile.TemporaryDirectory() as folder:
        into = Path(folder) / "found.json"
        both = ["--shape", options.shape, "--work", str(options.work), "--into", str(into)]
        both += ["--lossy", ",".join(options.lossy)] if options.lossy else []
        subprocess.run([sys.executable, "-m", f"benchmarks.reasoner.{benchmark}", *both, *more], check=True)
        found: dict[str, Any] = json.loads(into.read_text(encoding="utf-8"))
        return found


if __name__ == "__main__":
    main()
