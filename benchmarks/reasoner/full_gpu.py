"""Check of vLLM on a GPU whose memory another program holds: what it plans, answers, and says where it cannot.

    python -m benchmarks.reasoner.full_gpu --into FILE [--work FOLDER] [--free 24,8,3]

For each number of `--free`, another process takes all memory of the GPU but that many GiB. Then the engine loads the
true shape of Cosmos-Reason2-2B with random weights, and answers one question. At last the engine loads with all memory
free; the other process takes all that is left but half a GiB; the engine answers a question, the other process ends,
and the engine answers one more. It runs with the lock of the reasoner's image, on one GPU.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.machine import circumstances, gpus_of_this_process, software
from benchmarks.reasoner import true_shapes
from benchmarks.reasoner.clips import ReasonerWorkload, make_clips, make_job
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.job_files import input_paths
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from cosmos_batch.worker.logs import start_logging

_LEFT = 0.5  # GiB that a loaded engine is left with
_WORKLOAD = ReasonerWorkload("2b", 1, 64, (), scale=2, warm_up=0)
_HOLDER = """
import sys
import torch

free, _ = torch.cuda.mem_get_info()  # what PyTorch itself needs is taken already
taken = torch.empty(max(0, free - int(float(sys.argv[1]) * 2**30)), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


def main() -> None:
    """Run the check; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    start_logging()
    results: dict[str, Any] = {**circumstances(), **software("vllm", "torch")}
    with tempfile.TemporaryDirectory() as temporary:
        check = FullGpu.below(options.work or Path(temporary))
        for free in [*options.free, None]:
            name = "filled after loading" if free is None else f"{free:g} GiB free"
            results[name] = check.filled_after_loading() if free is None else check.loaded_in(free)
            print(name, json.dumps(results[name]), flush=True)
            options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.full_gpu", description=__doc__)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--free", type=lambda text: [float(one) for one in text.split(",")], default=[24.0, 8.0, 3.0])
    return parser.parse_args(arguments)


@dataclass(frozen=True)
class FullGpu:
    """The checkpoint, the clip that is asked about, and the compiled code that all loads share."""

    model: Path
    clip: Path
    caches: Path

    @classmethod
    def below(cls, work: Path) -> "FullGpu":
        """Write below a folder what does not exist there yet."""
        for name in ("scratch", "caches"):
            (work / name).mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = str(work / "scratch")  # the server may read below the folder for temporary files only
        [clip] = make_clips(work / f"clips-{_WORKLOAD.scale}", _WORKLOAD.clips, _WORKLOAD.scale)
        return cls(true_shapes.build(_WORKLOAD.shape, work), clip, work / "caches")

    def loaded_in(self, free: float) -> dict[str, Any]:
        """Load the engine into so many free GiB, and ask it once. Its error, where it does not load."""
        with holding_all_but(free):
            began = time.monotonic()
            try:
                engine = self._load()
            except Failure as failure:
                return {"loadSeconds": _since(began), "error": failure.error.model_dump(mode="json")}
            found = {"loadSeconds": _since(began), "plan": str(engine._served.plan)}
            try:
                return {**found, "job": self._ask(engine)}
            finally:
                engine.close()

    def filled_after_loading(self) -> dict[str, Any]:
        """Load the engine, fill the GPU, ask it once, and once more with the memory free again."""
        engine = self._load()
        plan = str(engine._served.plan)
        try:
            with holding_all_but(_LEFT):
                full = self._ask(engine)
            return {"plan": plan, "full": full, "afterwards": self._ask(engine)}
        finally:
            engine.close()

    def _load(self) -> VllmEngine:
        engine = VllmEngine()
        engine.caches = self.caches
        engine.load(self.model, REASONER_CONTEXT)
        return engine

    def _ask(self, engine: VllmEngine) -> str:
        """Return how many tokens an answer has, or the error with which the job ended."""
        with tempfile.TemporaryDirectory() as folder:
            job = make_job(0, self.clip, _WORKLOAD, f"{time.time()} ")
            for path in input_paths(job, Path(folder)):
                shutil.copy(self.clip, path)
            try:
                answer = asyncio.run(engine.run(job, Path(folder)))
            except (Failure, EngineDied) as failed:
                return f"{failed.error.code}: {failed.error.message} {failed.error.remedy}"
        return f"answered with {answer.usage.completion_tokens} tokens"


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


if __name__ == "__main__":
    main()
