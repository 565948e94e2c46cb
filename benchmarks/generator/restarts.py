"""Check of an engine's server: jobs that are cancelled, and processes that are killed while a job runs.

    python -m benchmarks.generator.restarts ENGINE [--shape tiny|nano] [--size WxH] [--work FOLDER] [--into FILE]

It makes a video, cancels one after its first step, and makes the next. Then it kills each of the server's processes in
turn by SIGKILL while a video is made, and makes another, for which the engine has to start its server again. All
results are seconds. It runs with the lock of the engine's image, on a GPU with `--shape nano`.
"""

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.generator import true_generator
from benchmarks.generator.jobs import NANO, TINY, GeneratorWorkload, generation_for
from benchmarks.machine import circumstances
from benchmarks.processes import children
from benchmarks.results import FOLDER
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.worker.logs import start_logging

_LOOK_SECONDS = 0.05


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator.restarts", description=__doc__)
    parser.add_argument("engine")
    parser.add_argument("--shape", choices=("tiny", "nano"), default="tiny")
    parser.add_argument("--size", help="the smallest of the shape's by default")
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--into", type=Path, help="benchmarks/results/generator-ENGINE-restarts.json by default")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the check; the module's docstring has the options."""
    options = parse()
    start_logging()
    workload = NANO if options.shape == "nano" else TINY
    into = options.into or FOLDER / f"generator-{options.engine}-restarts.json"
    results: dict[str, Any] = {**circumstances(), "shape": options.shape}
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        engine: Any = create_engine(options.engine)
        engine.guardrails = False
        began = time.monotonic()
        engine.load(true_generator.build(workload.shape, work / "models"))
        results |= {"engine": engine.name, "torch": version("torch"), "load": round(time.monotonic() - began, 1)}
        try:
            size = options.size or workload.sizes[0]
            results |= asyncio.run(Restarts(engine, workload, size, work).measure())
        finally:
            engine.close()
    into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


class Restarts:
    """Cancels jobs of a loaded engine and kills its processes."""

    def __init__(self, engine: Any, workload: GeneratorWorkload, size: str, work: Path) -> None:
        self._engine = engine
        self._work = work
        self._generation = generation_for(workload, size)

    async def measure(self) -> dict[str, Any]:
        """Return the seconds of a job, of one after a cancelled job, and from each kill to the next answer."""
        found: dict[str, Any] = {"job": await self._seconds("first")}
        cancelled = await self._start_job("cancelled")
        cancelled.cancel()
        with suppress(asyncio.CancelledError):
            await cancelled
        found["jobAfterCancelled"] = await self._seconds("next")
        found["kills"] = [await self._after_kill(number) for number in range(len(self._processes()))]
        return found

    async def _after_kill(self, number: int) -> dict[str, Any]:
        """Kill one of the server's processes while a job runs, then run the next job.

        A job may be answered all the same, as when torchrun's own process dies and those that it has started go on.
        Raises AssertionError if one of the processes is left when the next job is done.
        """
        dying = await self._start_job(f"dying {number}")
        before = self._processes()
        process = program_of(Path(f"/proc/{before[number]}/cmdline").read_bytes().decode().split("\0"))
        began = time.monotonic()
        os.kill(before[number], signal.SIGKILL)
        died = None
        try:
            await dying
        except EngineDied:
            died = round(time.monotonic() - began, 2)
        await self._seconds(f"after {number}")
        answered = round(time.monotonic() - began, 2)
        left = [process for process in before if Path(f"/proc/{process}").exists()]
        assert not left, f"Of {process}, which was killed, the processes {left} are left."
        return {"process": process, "jobDied": died, "nextAnswer": answered}

    def _processes(self) -> list[int]:
        """Return the ids of the server's processes: the one that the engine started, then its descendants."""
        server: int = self._engine._served._server._process.pid
        return [server, *sorted(children(server))]

    async def _start_job(self, name: str) -> "asyncio.Future[None]":
        """Start a job, and return its future as soon as the first denoising step is done."""
        job = asyncio.ensure_future(self._make(name))
        while not (self._engine.steps(name) or (0, 0))[0] and not job.done():
            await asyncio.sleep(_LOOK_SECONDS)
        return job

    async def _seconds(self, name: str) -> float:
        began = time.monotonic()
        await self._make(name)
        return round(time.monotonic() - began, 2)

    async def _make(self, name: str) -> None:
        with tempfile.TemporaryDirectory(dir=self._work) as folder:
            await self._engine.generate(self._generation, GenerationFiles(None, {}), Path(folder), name)


def program_of(command: list[str]) -> str:
    """Return what a command runs: the module that is given to Python, or else the program without its folder."""
    return command[command.index("-m") + 1] if "-m" in command else Path(command[0]).name


if __name__ == "__main__":
    main()
