"""Benchmark of preparing requests about small clips, in threads of one process and in processes, without a model.

    python -m benchmarks.reasoner.preparing --into FILE [--clips 512] [--runs 2]

In both ways as many clips are prepared at once as a worker prepares: half of the cores, with all cores of this machine
and, if there are more, with four. `python -m benchmarks --only preparing` measures the same for the page's table.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import circumstances
from benchmarks.measurement import Measurement
from benchmarks.reasoner.clips import ReasonerWorkload, make_clips, make_job
from benchmarks.reasoner.gpu_decoding import FEW_CORES
from benchmarks.results import FOLDER
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.contract.job import Job
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.checkpoints import context_length
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request
from cosmos_batch.engines.reasoner.preparation_pool import PreparationPool

RESULT = FOLDER / "preparing-16-cores.json"  # of a machine with so many
_WORKLOAD = ReasonerWorkload("tiny", clips=256, tokens=256, levels=(), scale=2, warm_up=0)
_DIFFERENT = 32  # clips; more are these once more

Prepare = Callable[[Job, list[Path]], ChatRequest]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.preparing", description=__doc__)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--clips", type=int, default=512)
    parser.add_argument("--runs", type=int, default=2)
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        runs = [rates(Path(folder), options.clips) for _ in range(options.runs)]
    results = {**circumstances(), "clips": options.clips, "runs": runs}
    options.into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def measure() -> list[Measurement]:
    """Measure both ways, with all cores and with few."""
    with tempfile.TemporaryDirectory() as folder:
        found = rates(Path(folder), _WORKLOAD.clips)
    return [_row(*pair) for pair in zip(found[::2], found[1::2], strict=True)]


def _row(threads: dict[str, Any], processes: dict[str, Any]) -> Measurement:
    cores, at_once = processes["cores"], processes["atOnce"]
    return Measurement(
        name=f"requests about clips of 640 x 480 and four seconds, prepared with {cores} cores, {at_once} at once",
        value=f"{processes['perSecond']:.1f} a second in processes, "
        f"{processes['perSecond'] / threads['perSecond']:.2f} of {threads['perSecond']:.1f} in threads",
        limit="none",
        met=True,
        raw={"threads": threads, "processes": processes},
    )


def rates(folder: Path, clips: int) -> list[dict[str, Any]]:
    """Return the clips a second of each way with each number of cores."""
    model = build_random_checkpoint(folder / "models")
    files = make_clips(folder / "clips", min(clips, _DIFFERENT), _WORKLOAD.scale)
    cores = sorted(os.sched_getaffinity(0))
    found = []
    try:
        for used in sorted({len(cores), min(len(cores), FEW_CORES)}, reverse=True):
            os.sched_setaffinity(0, cores[:used])
            at_once = max(1, used // 2)
            for way, prepares in (("threads", in_threads(model)), ("processes", in_processes(model, at_once))):
                with prepares as prepare:
                    _rate(prepare, files, 4 * at_once, at_once)  # so that all have imported what they need
                    rate = _rate(prepare, files, clips, at_once)
                one = {"cores": used, "atOnce": at_once, "way": way, "perSecond": round(rate, 1)}
                print(one, file=sys.stderr, flush=True)
                found.append(one)
    finally:
        os.sched_setaffinity(0, cores)
    return found


@contextmanager
def in_threads(model: Path) -> Iterator[Prepare]:
    """Yield the function that prepares a request in the thread that calls it."""
    checkpoint = CheckpointInfo.from_folder(model, context_length(model, REASONER_CONTEXT))
    yield lambda job, paths: prepare_request(checkpoint, job, paths, lambda: None)


@contextmanager
def in_processes(model: Path, at_once: int) -> Iterator[Prepare]:
    """Yield the function that has a request prepared in another process."""
    pool = PreparationPool(model, context_length(model, REASONER_CONTEXT), at_once)
    try:
        yield lambda job, paths: pool.prepare(job, paths, lambda: None)
    finally:
        pool.close()


def _rate(prepare: Prepare, files: list[Path], clips: int, at_once: int) -> float:
    """Prepare requests, of which so many at once, and return how many a second were prepared."""

    def one(number: int) -> None:
        file = files[number % len(files)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file.name
            path.symlink_to(file)
            request = prepare(make_job(number, file, _WORKLOAD), [path])
            assert request.frame_times, "the clip was decoded"

    with ThreadPoolExecutor(at_once) as pool:
        began = time.monotonic()
        list(pool.map(one, range(clips)))
        return clips / (time.monotonic() - began)


if __name__ == "__main__":
    main()
