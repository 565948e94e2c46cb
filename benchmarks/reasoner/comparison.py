"""Benchmark of the reasoner: a process per clip, raw vLLM, our worker; same clips, frames, sampling, answer lengths.

    python -m benchmarks.reasoner.comparison [--shape tiny|2b|8b] [--steps raw,process,worker,start] [--into FILE]
        [--clips 1000] [--processes 3] [--lossy fp8,fp8Cache]

Use a GPU with the shape of a real model, or a CPU with `tiny`. The results of each step are written at once. A pass of
raw vLLM over more `--clips` than 256 asks about the same 256 several times, each time with another system prompt.
`--lossy` has raw vLLM compute in FP8, by the names of a pipeline's configuration.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.child_output import last_json_object
from benchmarks.machine import circumstances, software
from benchmarks.reasoner import start as reasoner_start
from benchmarks.reasoner import true_shapes
from benchmarks.reasoner import worker as reasoner_worker
from benchmarks.reasoner.clips import ReasonerWorkload, frames_of, make_clips, make_job, prepare_all
from benchmarks.reasoner.precision import modes_named
from benchmarks.results import FOLDER
from cosmos_batch.catalogue.generation import REASONERS_IN_FP8
from cosmos_batch.catalogue.pipelines import REASONER_CONTEXT
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.checkpoints import context_length
from cosmos_batch.engines.gpus import gpus_here
from cosmos_batch.engines.reasoner.chat_request import CheckpointInfo
from cosmos_batch.engines.reasoner.vllm.command import chat_template, serve_environment
from cosmos_batch.planning.questions import ANSWERING

TINY = ReasonerWorkload("tiny", clips=24, tokens=32, levels=(1, 8, 24), scale=1, warm_up=8)
LEVELS = (1, 64, 128, 256)
STEPS = ("start", "raw", "process", "worker")
DIFFERENT = 256  # clips; more are these once more
PROCESSES = 3


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reasoner.comparison", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "2b", "8b"), default="tiny")
    parser.add_argument("--steps", help=f"some of {','.join(STEPS)}; others stay as they were found before")
    parser.add_argument("--into", type=Path, help="benchmarks/results/reasoner-SHAPE.json by default")
    parser.add_argument("--work", type=Path, default=None, help="kept folder; a temporary one by default")
    parser.add_argument("--passes", type=int)
    parser.add_argument("--levels", help="in flight, such as 1,64; none where empty")
    parser.add_argument("--clips", type=int, help="of a pass; those of the workload by default")
    parser.add_argument("--processes", type=int, default=PROCESSES, help="that answer one clip each")
    parser.add_argument("--lossy", type=partial(modes_named, REASONERS_IN_FP8), default=[])
    options = parser.parse_args(arguments)
    steps = set(options.steps.split(",") if options.steps else STEPS)
    if options.clips is not None and "worker" in steps:
        parser.error("--clips is for the steps of raw vLLM; the worker's passes are over the clips of the workload.")
    if options.lossy and steps & {"worker", "start"}:
        parser.error("--lossy is for the steps of raw vLLM; benchmarks.reasoner.gpu has it for the worker.")
    return options


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    workload = (
        TINY
        if options.shape == "tiny"
        else ReasonerWorkload(options.shape, DIFFERENT, 256, LEVELS, scale=2, warm_up=64)
    )
    if options.passes is not None:
        workload = replace(workload, passes=options.passes)
    if options.clips is not None:
        workload = replace(workload, clips=options.clips)
    if options.levels is not None:
        workload = replace(workload, levels=tuple(int(level) for level in options.levels.split(",") if level))
    into = options.into or FOLDER / f"reasoner-{options.shape}.json"
    results = json.loads(into.read_text(encoding="utf-8")) if options.steps and into.exists() else {}
    with tempfile.TemporaryDirectory() as temporary:
        steps = options.steps.split(",") if options.steps else STEPS
        engine = _engine_options(options.lossy)
        measure(workload, steps, options.work or Path(temporary), into, results, options.processes, engine)


def measure_tiny() -> None:
    """Measure a few clips on any machine. The start is left out, because it would empty the machine's page cache."""
    with tempfile.TemporaryDirectory() as work:
        measure(TINY, STEPS[1:], Path(work), FOLDER / "reasoner-tiny.json", {})


def measure(
    workload: ReasonerWorkload,
    steps: Sequence[str],
    work: Path,
    into: Path,
    results: dict[str, Any],
    processes: int = PROCESSES,
    engine_options: dict[str, Any] | None = None,
) -> None:
    """Run the steps in their order, and add their results to `results`; raw vLLM has `engine_options` too."""
    build = build_random_checkpoint if workload.shape == "tiny" else lambda at: true_shapes.build(workload.shape, at)
    model = build(work / "models")
    clips = make_clips(work / f"clips-{workload.scale}", min(workload.clips, DIFFERENT), workload.scale)
    # The server may read below the folder for temporary files only; see `VllmEngine`.
    scratch = work / "scratch"
    scratch.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
    results |= {**circumstances(), **software("vllm", "torch"), "workload": asdict(workload)}
    raw = RawVllm(model, workload, scratch, engine_options or {})
    for step in STEPS:
        if step not in steps:
            continue
        began = time.monotonic()
        if step == "start":
            results[step] = reasoner_start.measure(model, clips[0], scratch)
        elif step == "worker":
            results[step] = reasoner_worker.measure(model, clips, workload)
        elif step == "raw":
            results[step] = raw.answer_all(clips)
        else:
            results[step] = [raw.answer_one(clip) for clip in clips[:processes]]
        print(f"{workload.shape} {step}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    tempfile.tempdir = None


@dataclass(frozen=True)
class RawVllm:
    """Raw vLLM, each time in a process of its own, with the frames that our worker would give it.

    Attributes
    ----------
    model
        The folder of the checkpoint.
    workload
        What is asked, and how long the answers are.
    scratch
        A folder for the questions and their frames.
    options
        Options of vLLM beside those of `_engine`.
    """

    model: Path
    workload: ReasonerWorkload
    scratch: Path
    options: dict[str, Any]

    def answer_all(self, clips: list[Path]) -> dict[str, Any]:
        """Run a warm-up in one process, then passes over as many clips as the workload has.

        If those are more than there are files, each file is asked about several times, with other system prompts.
        """
        rounds = -(-self.workload.clips // len(clips))
        prefixes = [f"Pass {number}, {again}. " for number in range(self.workload.passes) for again in range(rounds)]
        with tempfile.TemporaryDirectory(dir=self.scratch) as temporary:
            folder = Path(temporary)
            warm_up = self._questions(clips[: self.workload.warm_up], folder / "warm-up", ["Warm-up. "])
            asked = self._questions(clips, folder, prefixes)
            passes = [[*chain(*asked[first : first + rounds])] for first in range(0, len(asked), rounds)]
            raw = self._ask([*warm_up, *(one[: self.workload.clips] for one in passes)], folder)
        warmed, *counted = raw["passes"]
        return {**raw, "warmUp": warmed, "passes": counted}

    def answer_one(self, clip: Path) -> dict[str, Any]:
        """Run a process that answers one clip."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as temporary:
            folder = Path(temporary)
            return self._ask(self._questions([clip], folder, [f"{clip.stem} "]), folder)

    def _questions(self, clips: list[Path], folder: Path, prefixes: list[str]) -> list[list[dict[str, str]]]:
        """Return the system prompt, the prompt and the path of the frames for each clip of each pass."""
        reader = CheckpointInfo.from_folder(self.model, context_length(self.model, REASONER_CONTEXT))
        jobs = [make_job(number, clip, self.workload) for number, clip in enumerate(clips)]
        frames = [frames_of(one) for one in prepare_all(reader, jobs, clips, folder)]
        return [
            [
                {"system": f"{words}{job.system_prompt}", "prompt": str(job.prompt), "frames": path}
                for job, path in zip(jobs, frames, strict=True)
            ]
            for words in prefixes
        ]

    def _ask(self, passes: list[list[dict[str, str]]], folder: Path) -> dict[str, Any]:
        """Return what a process of raw vLLM prints about these passes, and how long the process took."""
        request = {
            "model": str(self.model),
            "template": chat_template(self.model),
            "engine": {**_engine(self.model), **self.options},
            "sampling": {**asdict(ANSWERING), "max_tokens": self.workload.tokens},
            "passes": passes,
        }
        path = folder / "asked.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        began = time.monotonic()
        command = [sys.executable, "-m", "benchmarks.reasoner.raw", str(path)]
        environment = {
            **os.environ,
            **serve_environment(gpus_here(), folder.parent.parent / "raw-caches", folder),
        }
        printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        return {"process": time.monotonic() - began, **last_json_object(printed)}


def _engine_options(lossy: Sequence[str]) -> dict[str, Any]:
    """Return vLLM's options for lossy modes, as `VllmPlan` has them for the worker's server."""
    options = {"fp8": {"quantization": "fp8"}, "fp8Cache": {"kv_cache_dtype": "fp8"}}
    return {name: value for mode in lossy for name, value in options[mode].items()}


def _engine(model: Path) -> dict[str, Any]:
    """Return those options of the worker's server that say what is to be answered, by vLLM's names.

    The others are vLLM's defaults, as in a script: the batch of tokens, the threads for media, the compiled encoder,
    the CUDA graphs, and how much room is kept free for answers that grow.
    """
    engine: dict[str, Any] = {
        "max_model_len": context_length(model, REASONER_CONTEXT),
        "generation_config": "vllm",
        "mm_processor_cache_gb": 0,
    }
    if gpus_here():
        return {**engine, "max_num_seqs": 256}
    return {**engine, "max_num_seqs": 8, "enforce_eager": True, "kv_cache_memory_bytes": 64 << 20, "dtype": "float32"}


if __name__ == "__main__":
    main()
