"""Benchmark of an engine's start in a new process, then of jobs of two steps, and of whole jobs.

    python -m benchmarks.generator.start ENGINE MODEL SHAPE CACHES [whole]

Each start is a new process, timed from its first line. Where the page cache may be emptied, weights and libraries are
read from the disk.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.child_output import last_json_object
from benchmarks.generator.jobs import NANO, TINY, GeneratorWorkload, generation_for
from benchmarks.reasoner.start import forget_files
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.job_files import GenerationFiles

BEGAN = time.time()


def measure(engine: str, model: Path, workload: GeneratorWorkload, work: Path) -> dict[str, Any]:
    """Measure a start without compiled code, one with the code of the first, and whole jobs. The cache folder keeps its
    path."""
    caches = work / "compiled"
    shutil.rmtree(caches, ignore_errors=True)
    return {
        "without": _start(engine, model, workload, caches),
        "with": _start(engine, model, workload, caches, "whole"),
    }


def _start(engine: str, model: Path, workload: GeneratorWorkload, caches: Path, *more: str) -> dict[str, Any]:
    forgotten = forget_files()
    began = time.time()
    command = [
        sys.executable,
        "-m",
        "benchmarks.generator.start",
        engine,
        str(model),
        workload.shape,
        str(caches),
        *more,
    ]
    output = last_json_object(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    boot = output.pop("began") - began
    kept = sum(path.stat().st_size for path in caches.rglob("*") if path.is_file())
    return {"boot": round(boot, 2), "filesForgotten": forgotten, "keptBytes": kept, **output}


def main() -> None:
    """Load the engine, then generate two videos of two steps in each size, and whole ones if requested."""
    name, model, shape, caches, *more = sys.argv[1:]
    workload = NANO if shape == "nano" else TINY
    engine: Any = create_engine(name)
    engine.guardrails, engine.caches = False, Path(caches)
    engine.load(Path(model))
    loaded = time.time() - BEGAN
    jobs = asyncio.run(_jobs(engine, workload, whole=bool(more)))
    engine.close()
    phases = engine.startup_seconds
    print(json.dumps({"began": BEGAN, "engine": engine.name, "loaded": round(loaded, 2), "phases": phases, **jobs}))
    print(*engine.startup_logs, sep="\n", file=sys.stderr)


async def _jobs(engine: Any, workload: GeneratorWorkload, whole: bool) -> dict[str, Any]:
    brief = replace(workload, steps=2)
    first, again = [{size: await _seconds(engine, brief, size) for size in workload.sizes} for _ in range(2)]
    result = {size: await _make(engine, workload, size) for size in workload.sizes} if whole else {}
    return {"firstJob": first, "resident": again, "whole": result}


async def _seconds(engine: Any, workload: GeneratorWorkload, size: str) -> float:
    """Return the seconds of a whole job."""
    began = time.monotonic()
    await _make(engine, workload, size)
    return round(time.monotonic() - began, 3)


async def _make(engine: Any, workload: GeneratorWorkload, size: str) -> dict[str, float]:
    """Run one job, and return the seconds of each phase."""
    with tempfile.TemporaryDirectory() as folder:
        result = await engine.generate(generation_for(workload, size), GenerationFiles(None, {}), Path(folder))
    timings: dict[str, float] = result.timings
    return timings


if __name__ == "__main__":
    main()
