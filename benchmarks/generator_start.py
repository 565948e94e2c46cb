"""From a job to its first step: on a new machine without and with what another compiled, and with a resident model.

    python -m benchmarks.generator_start MODEL SHAPE CACHES

Each start is a process of its own, from its first line. Weights and libraries come from the disk, where the page cache
may be emptied.
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

from benchmarks.generator_jobs import NANO, TINY, Workload, asked
from benchmarks.reasoner_start import forget_files
from benchmarks.said import said_last

BEGAN = time.time()


def measure(model: Path, workload: Workload, work: Path) -> dict[str, Any]:
    """Without anything compiled, then with what that start left; the folder is at one path for both."""
    caches = work / "compiled"
    shutil.rmtree(caches, ignore_errors=True)
    return {name: _start(model, workload, caches) for name in ("without", "with")}


def _start(model: Path, workload: Workload, caches: Path) -> dict[str, Any]:
    forgotten = forget_files()
    began = time.time()
    command = [sys.executable, "-m", "benchmarks.generator_start", str(model), workload.shape, str(caches)]
    said = said_last(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    boot = said.pop("began") - began
    kept = sum(path.stat().st_size for path in caches.rglob("*") if path.is_file())
    return {"boot": round(boot, 2), "filesForgotten": forgotten, "keptBytes": kept, **said}


def main() -> None:
    """Load, make the first video of each size, then one more of each."""
    from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine

    model, workload = Path(sys.argv[1]), NANO if sys.argv[2] == "nano" else TINY
    engine = DiffusersEngine()
    engine.guardrails, engine.caches = False, Path(sys.argv[3])
    engine.load(model)
    loaded = time.time() - BEGAN
    first, again = ({size: _first_step(engine, workload, size) for size in workload.sizes} for _ in range(2))
    said = {"loaded": round(loaded, 2), "phases": engine.startup_seconds, "firstJob": first, "resident": again}
    engine.close()
    print(json.dumps({"began": BEGAN, **said}), flush=True)
    print(*engine.startup_logs, sep="\n", file=sys.stderr)


def _first_step(engine: Any, workload: Workload, size: str) -> float:
    """Seconds from the job to its first step, its preparation included."""
    from cosmos_batch.engines import GenerationFiles

    job = asked(replace(workload, steps=2), size)
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(engine.generate(job, GenerationFiles(None, {}), Path(folder)))
    seconds: float = made.timings["prepare"] + made.timings["firstStep"]
    return round(seconds, 3)


if __name__ == "__main__":
    main()
