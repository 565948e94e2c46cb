"""Profile of videos made by vLLM-Omni as it ships: the GPU's seconds by kind of kernel, and those in which it waits.

    python -m benchmarks.generator.kernels [--shape tiny|nano] [--sizes WxH,...] [--modes plain,fp8] [--steps N]
                                           [--work FOLDER] [--into FILE]

Of each size it makes a video that is not counted, one without the profiler, and one with it. The profiler is PyTorch's,
which the server starts and stops on request. It slows the host down, so the wait of the GPU is that of the video
without it: the seconds of its generation less those of the kernels. It runs with the lock of containers/omni on one
GPU, and on a CPU with the environment of `make test-omni`, where there are no kernels.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.generator import true_generator
from benchmarks.generator.jobs import NANO, TINY, GeneratorWorkload, generation_for
from benchmarks.generator.modes import MODES, more_options
from benchmarks.kernel_trace import kernel_seconds, newest_trace, profiler_options
from benchmarks.machine import circumstances
from benchmarks.results import FOLDER
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.job_files import GenerationFiles


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator.kernels", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "nano"), default="tiny")
    parser.add_argument("--sizes", help="separated by commas; those of the shape by default")
    parser.add_argument("--modes", default="plain")
    parser.add_argument("--steps", type=int, help="those of the shape's videos by default; all take the same time")
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--into", type=Path, help="benchmarks/results/generator-kernels-SHAPE.json by default")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    workload = NANO if options.shape == "nano" else TINY
    workload = replace(workload, steps=options.steps or workload.steps)
    sizes = options.sizes.split(",") if options.sizes else list(workload.sizes)
    into = options.into or FOLDER / f"generator-kernels-{options.shape}.json"
    results: dict[str, Any] = {**circumstances(), "shape": options.shape}
    results |= {"engine": f"vllm-omni {version('vllm-omni')}", "torch": version("torch")}
    results |= {"frames": workload.frames, "steps": workload.steps, "modes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        model = true_generator.build(workload.shape, work / "models")
        for mode in options.modes.split(","):
            results["modes"][mode] = measure(model, mode, workload, sizes, work)
            into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")  # what was measured is kept
            print(json.dumps({mode: results["modes"][mode]}), flush=True)


def measure(model: Path, mode: str, workload: GeneratorWorkload, sizes: list[str], work: Path) -> dict[str, Any]:
    """Start a server of a mode that can be profiled, and return the profile of a video of each size."""
    engine: Any = create_engine("vllm-omni")
    engine.guardrails = False
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=work) as traces:
        with more_options([*MODES[mode].options, *profiler_options(Path(traces))]):
            engine.load(model)
        try:
            for size in sizes:
                _seconds(engine, workload, size, work)
                plain = _seconds(engine, workload, size, work)
                asyncio.run(engine._served.request(lambda connection: _post(connection, "/start_profile")))
                with_profiler = _seconds(engine, workload, size, work)
                asyncio.run(engine._served.request(lambda connection: _post(connection, "/stop_profile")))
                found = kernel_seconds(newest_trace(Path(traces), "trace_rank0.json"))
                figures[size] = {"generate": plain, "generateWithProfiler": with_profiler, **found}
        finally:
            engine.close()
    return figures


def _seconds(engine: Any, workload: GeneratorWorkload, size: str, work: Path) -> float:
    """Make a video and return the seconds of its generation."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        job = generation_for(workload, size)
        output = asyncio.run(engine.generate(job, GenerationFiles(None, {}), Path(folder)))
    return float(output.timings["generate"])


async def _post(connection: httpx2.AsyncClient, path: str) -> None:
    (await connection.post(path)).raise_for_status()


if __name__ == "__main__":
    main()
