"""Check of an engine on a GPU whose memory another program holds: what it plans, answers, and says where it cannot.

    python -m benchmarks.full_gpu vllm|diffusers --into FILE [--work FOLDER] [--free 24,8,3] [--size 832x480]

For each number of `--free`, another process takes all memory of the GPU but that many GiB. Then the engine loads its
model, the true shape of Cosmos-Reason2-2B or of Cosmos3-Nano with random weights, and does one job. At last the engine
loads with all memory free; the other process takes all that is left but half a GiB; the engine does one job, the other
process ends, and the engine does one more. It runs with the lock of the engine's image, on one GPU.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.generator import true_generator
from benchmarks.generator.jobs import NANO, generation_for
from benchmarks.machine import gpus_of_this_process, machine
from benchmarks.reasoner import true_shapes
from benchmarks.reasoner.clips import ReasonerWorkload, make_clips, make_job
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.job_files import GenerationFiles, input_paths
from cosmos_batch.worker.logs import start_logging

_LEFT = 0.5  # GiB that a loaded engine is left with
_HOLDER = """
import sys
import torch

free, _ = torch.cuda.mem_get_info()  # what PyTorch itself needs is taken already
taken = torch.empty(max(0, free - int(float(sys.argv[1]) * 2**30)), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""

Ask = Callable[[Any], str]
"""Has a loaded engine do one job, and returns what came of it."""


def main() -> None:
    """Run the check; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    start_logging()
    results: dict[str, Any] = {"machine": machine(), "day": f"{datetime.now(UTC):%Y-%m-%d}", "engine": options.engine}
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        load, ask = _reasoner(work) if options.engine == "vllm" else _generator(work, options.size)
        cases: dict[str, Callable[[], dict[str, Any]]] = {
            f"{free:g} GiB free": partial(_loaded_in, load, ask, free) for free in options.free
        }
        cases["filled after loading"] = partial(_filled_later, load, ask)
        for name, case in cases.items():
            results[name] = case()
            print(name, json.dumps(results[name]), flush=True)
            options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_gpu", description=__doc__)
    parser.add_argument("engine", choices=("vllm", "diffusers"))
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--free", type=lambda text: [float(one) for one in text.split(",")], default=[24.0, 8.0, 3.0])
    parser.add_argument("--size", default="832x480", help="of the generator's videos")
    return parser.parse_args(arguments)


def _loaded_in(load: Callable[[], Any], ask: Ask, free: float) -> dict[str, Any]:
    """Load an engine into so many free GiB, and do one job."""
    with holding_all_but(free):
        began = time.monotonic()
        try:
            engine = load()
        except Failure as failure:
            return {"loadSeconds": _since(began), "error": failure.error.model_dump(mode="json")}
        loaded = _since(began)
        try:
            return {"loadSeconds": loaded, "plan": _plan(engine), "job": ask(engine)}
        finally:
            engine.close()


def _filled_later(load: Callable[[], Any], ask: Ask) -> dict[str, Any]:
    """Load an engine, fill the GPU, do one job, and another with the memory free again."""
    engine = load()
    try:
        with holding_all_but(_LEFT):
            full = ask(engine)
        return {"plan": _plan(engine), "full": full, "afterwards": ask(engine)}
    finally:
        engine.close()


def _plan(engine: Any) -> str:
    """Return how an engine with a server was started; Diffusers has none, and loads whole or with parts on the host."""
    served = getattr(engine, "_served", None)
    return str(served.plan) if served is not None else str(engine.plan)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 1)


@contextmanager
def holding_all_but(free: float) -> Iterator[None]:
    """Have another process hold the GPU's memory, but so many GiB, while the context lasts."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(free)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        if holder.stdout.readline().strip() != "held":
            raise SystemExit("The process that was to hold the GPU's memory ended before it did.")
        query = ["nvidia-smi", *gpus_of_this_process(first=True), "--query-gpu=memory.free", "--format=csv,noheader"]
        print(subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip(), "free", flush=True)
        yield
    finally:
        holder.stdin.close()
        holder.wait()


def _reasoner(work: Path) -> tuple[Callable[[], Any], Ask]:
    model = true_shapes.build("2b", work)
    workload = ReasonerWorkload("2b", 1, 64, (), scale=2, warm_up=0)
    [clip] = make_clips(work / "clips-2", 1, 2)
    scratch, caches = (work / name for name in ("scratch", "caches"))
    for folder in (scratch, caches):
        folder.mkdir(exist_ok=True)
    tempfile.tempdir = str(scratch)  # the server may read below the folder for temporary files only

    def load() -> Any:
        engine: Any = create_engine("vllm")
        engine.caches = caches
        engine.load(model, REASONER_CONTEXT)
        return engine

    async def answer(engine: Any, folder: Path) -> str:
        job = make_job(0, clip, workload, f"{time.time()} ")
        for path in input_paths(job, folder):
            shutil.copy(clip, path)
        return f"answered with {(await engine.run(job, folder)).usage.completion_tokens} tokens"

    return load, lambda engine: _outcome(lambda folder: answer(engine, folder))


def _generator(work: Path, size: str) -> tuple[Callable[[], Any], Ask]:
    model = true_generator.build("nano", work / "models")
    job = generation_for(NANO, size)

    def load() -> Any:
        engine: Any = create_engine("diffusers")
        engine.guardrails = False
        engine.load(model)
        return engine

    async def make(engine: Any, folder: Path) -> str:
        output = await engine.generate(job, GenerationFiles(None, {}), folder)
        return f"made in {output.timings['generate']:.1f} s"

    return load, lambda engine: _outcome(lambda folder: make(engine, folder))


def _outcome(work: Callable[[Path], Any]) -> str:
    """Return what a job says of itself, or the error with which it ended."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            return str(asyncio.run(work(Path(folder))))
        except (Failure, EngineDied) as failed:
            return f"{failed.error.code}: {failed.error.message} {failed.error.remedy}"


if __name__ == "__main__":
    main()
