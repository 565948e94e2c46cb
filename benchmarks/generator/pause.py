"""Benchmark of the pause between two jobs: from the last step of one to the first step of the next.

    python -m benchmarks.generator.pause [--shape tiny|nano] [--size WxH] [--jobs N] [--work FOLDER] [--into FILE]

The engine `vllm-omni` gets two jobs at a time, as from a worker, and the next when one is done. Its steps are polled a
hundred times a second. A pause that is longer than one step is idle time, or the decoding of the job before. From the
end of a job to the end of the next is what a worker with a queue takes for each. For how long the GPU has nothing to do
in that time, within steps and between jobs, `nvidia-smi` tells. It runs on a GPU with `--shape nano`, and on a CPU with
the environment of `make test-omni`: `.venv/omni/bin/python -m benchmarks.generator.pause`.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.generator import true_generator
from benchmarks.generator.jobs import NANO, TINY, GeneratorWorkload, job_for
from benchmarks.gpu_usage import GpuUsage
from benchmarks.machine import circumstances
from benchmarks.results import FOLDER
from cosmos_batch.engines.factory import create_engine

ENGINE = "vllm-omni"
IN_HAND = 2  # jobs that a worker has at once
LOOK_SECONDS = 0.01


@dataclass
class StepTimes:
    """When a job's first and last step were observed, and when its files were there: seconds of the monotonic clock."""

    first: float | None = None
    last: float | None = None
    done: float = 0.0


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator.pause", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "nano"), default="tiny")
    parser.add_argument("--size", help="the smallest of the shape's by default")
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--into", type=Path, help="benchmarks/results/generator-pause-SHAPE.json by default")
    options = parser.parse_args()
    workload = replace(NANO if options.shape == "nano" else TINY, steps=35)
    size = options.size or workload.sizes[0]
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        results = measure(true_generator.build(workload.shape, work / "models"), workload, size, options.jobs, work)
    into = options.into or FOLDER / f"generator-pause-{options.shape}.json"
    into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def measure(model: Path, workload: GeneratorWorkload, size: str, jobs: int, work: Path) -> dict[str, Any]:
    """Run one job that is not counted, and then the jobs to measure, with two at a time in the engine."""
    engine: Any = create_engine(ENGINE)
    engine.guardrails = False
    engine.load(model)
    load = os.getloadavg()[0]
    try:
        asyncio.run(_step_times(engine, workload, size, 1, work))
        pauses = pauses_between_jobs(engine, workload, size, jobs, work)
    finally:
        engine.close()
    return {
        **circumstances(),
        "load": load,
        "engine": engine.name,
        "shape": workload.shape,
        "size": size,
        "frames": workload.frames,
        "steps": workload.steps,
        **pauses,
    }


def pauses_between_jobs(engine: Any, workload: GeneratorWorkload, size: str, jobs: int, work: Path) -> dict[str, Any]:
    """Run jobs with two at a time in a loaded engine. Return the seconds of a step, those from the last step of a job
    to the first of the next, those from the end of a job to the end of the next, and in which of them the GPU had
    nothing to do: its idle seconds for each job, from the last step of the first to that of the last.
    """
    with GpuUsage() as usage:
        seen = asyncio.run(_step_times(engine, workload, size, jobs, work))
    steps = [(one.last - one.first) / (workload.steps - 1) for one in seen if one.first and one.last]
    pauses = [after.first - one.last for one, after in pairwise(seen) if one.last and after.first]
    return {
        "secondsOfAStep": [round(one, 4) for one in steps],
        "secondsBetweenLastAndFirstStep": [round(one, 3) for one in pauses],
        "secondsFromEndToEnd": [round(after.done - one.done, 3) for one, after in pairwise(seen)],
        "gpuIdleSecondsOfAJob": _idle_of_a_job(usage, seen),
    }


def _idle_of_a_job(usage: GpuUsage, seen: list[StepTimes]) -> float | None:
    """Return for how long the GPU had nothing to do for each job but the first; None without a GPU."""
    first, last = seen[0].last, seen[-1].last
    if first is None or last is None or (idle := usage.idle_seconds(first, last)) is None:
        return None
    return round(idle / (len(seen) - 1), 3)


async def _step_times(engine: Any, workload: GeneratorWorkload, size: str, count: int, work: Path) -> list[StepTimes]:
    """Run jobs, with two at a time in the engine, and return the times of their steps in the order of generation."""
    seen = {f"job-{number}": StepTimes() for number in range(count)}
    looking = asyncio.ensure_future(_record_steps(engine, workload.steps, seen))
    places = asyncio.Semaphore(IN_HAND)

    async def make(name: str) -> None:
        async with places:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                await engine.run(job_for(name, workload, size), Path(folder))
                seen[name].done = time.monotonic()

    try:
        await asyncio.gather(*(make(name) for name in seen))
    finally:
        looking.cancel()
    return list(seen.values())


async def _record_steps(engine: Any, steps: int, seen: dict[str, StepTimes]) -> None:
    """Record when the first and the last step of each job are done, until this coroutine is cancelled."""
    while True:
        now = time.monotonic()
        for name, one in seen.items():
            done, _ = engine.steps(name) or (0, 0)
            if done and one.first is None:
                one.first = now
            if done == steps and one.last is None:
                one.last = now
        await asyncio.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
