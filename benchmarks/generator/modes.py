"""Benchmark of a generator's engine as it ships and, of vLLM-Omni, in modes that are faster and change the result.

    python -m benchmarks.generator.modes [--engine vllm-omni] [--shape tiny|nano]
                                         [--modes plain,static,seaCache,fp8,both]
                                         [--jobs KIND:WxH,...] [--first KIND:WxH,...] [--pauses N]
                                         [--work FOLDER] [--into FILE]

It runs with the lock of the engine's image: on one GPU with `--shape nano`, and on a CPU with the environment of `make
test-omni` and the modes `plain` and `seaCache`. The modes `tp2`, `cfg2` and `cfg2Hsdp` need two GPUs. Other engines
than vLLM-Omni have the modes `plain`, `tp2` and `cfg2`. Each mode has a server of its own, which is loaded once. The
figures of each job are written as soon as they are known. A job that fails is written with its error, and the others
are made all the same.

It makes each job once: `t2v` a video, `t2i` an image, `i2v` a video from an image, `v2v` one that continues a video,
`transfer` one that follows the edges of a video, `sound` a video with sound, and those of a robot's actions. Jobs of
`--first` are made once more before, which is not counted: the first one of a size is slower. A whole job is its
generation, plus `encodingSeconds`: how long the worker takes to encode a drawn, smooth clip of that size with a little
grain. The job's own `write` is longer, because random weights make noise. Diffusers encodes while the GPU decodes: it
encodes the drawn clip in place of the generated one, and a whole job is its generation plus its `write`. Peaks are
those of the first GPU, as `nvidia-smi` reports them. `--pauses` runs so many videos of the first job's size, two at a
time, and takes the pauses between them.

`static` compiles the model for each size instead of once for all sizes. `fp8` is vLLM-Omni's own dynamic quantization
of the BF16 weights. NVIDIA's recipe keeps 16-bit activations in the first and last three steps, and needs NVIDIA's
checkpoint; its time lies between the two.

With random weights the times of `seaCache` hold for the steps that noise lets it skip, and for no other video.
"""

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

from PIL import Image

from benchmarks.generator import true_generator
from benchmarks.generator.jobs import (
    KINDS,
    MEDIA,
    NANO,
    TINY,
    GeneratorWorkload,
    drawn_clip,
    drawn_instead,
    generation_for,
    sides,
)
from benchmarks.generator.pause import pauses_between_jobs
from benchmarks.machine import circumstances, gpus_of_this_process
from benchmarks.results import FOLDER
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.factory import create_engine
from cosmos_batch.engines.generator.diffusers import engine as diffusers_engine
from cosmos_batch.engines.generator.outputs import GeneratedMedia, write_files
from cosmos_batch.engines.generator.vllm_omni.command import OmniPlan
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.media import exact_rate, write_video
from cosmos_batch.worker.logs import start_logging

FP8 = ("--diffusion-quantization-config", '{"method": "fp8", "activation_scheme": "dynamic"}')
SAMPLING_SECONDS = 0.2
_OMNI, _DIFFUSERS = "vllm-omni", "diffusers"


@dataclass(frozen=True)
class ServerMode:
    """How a server is started: with SeaCache or without, by which plan, and with more options of the command line."""

    sea_cache: bool = False
    options: Sequence[str] = ()
    plan: ParallelPlan = field(default_factory=ParallelPlan)


MODES = {
    "plain": ServerMode(),
    "static": ServerMode(options=("--no-diffusion-compile-dynamic",)),
    "seaCache": ServerMode(sea_cache=True),
    "fp8": ServerMode(options=FP8),
    "both": ServerMode(sea_cache=True, options=FP8),
    "tp2": ServerMode(plan=ParallelPlan(tp=2)),
    "cfg2": ServerMode(plan=ParallelPlan(cfg=2)),
    "cfg2Hsdp": ServerMode(plan=ParallelPlan(cfg=2), options=("--use-hsdp", "--hsdp-shard-size", "2")),
}
OF_EVERY_ENGINE = ("plain", "tp2", "cfg2")
ON_ONE_GPU = ("plain", "static", "seaCache", "fp8", "both")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator.modes", description=__doc__)
    parser.add_argument("--engine", default=_OMNI)
    parser.add_argument("--shape", choices=("tiny", "nano"), default="tiny")
    parser.add_argument("--modes", type=_modes, default=[*ON_ONE_GPU])
    parser.add_argument(
        "--jobs",
        type=_jobs,
        help=f"KIND:WxH, separated by commas; kinds are {', '.join(KINDS)}; by default videos of the shape's sizes",
    )
    parser.add_argument(
        "--first", type=_jobs, default=[], help="those of the jobs that are made once before they count"
    )
    parser.add_argument("--pauses", type=int, default=0)
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    parser.add_argument("--into", type=Path, help="benchmarks/results/generator-modes-SHAPE.json by default")
    options = parser.parse_args(arguments)
    if options.engine != _OMNI and (strange := set(options.modes) - set(OF_EVERY_ENGINE)):
        parser.error(f"{options.engine} has no mode {' or '.join(sorted(strange))}.")
    return options


def _modes(text: str) -> list[str]:
    """Return the modes that an option names."""
    modes = text.split(",")
    if not set(modes) <= MODES.keys():
        raise argparse.ArgumentTypeError(f"Modes are {', '.join(MODES)}.")
    return modes


def _jobs(text: str) -> list[tuple[str, str]]:
    """Return the kind and the size of each job that an option names."""
    jobs = [(kind, size) for kind, _, size in (job.partition(":") for job in text.split(","))]
    if any(kind not in KINDS or not size for kind, size in jobs):
        raise argparse.ArgumentTypeError(f"Write jobs as KIND:WxH, with kinds of {', '.join(KINDS)}.")
    return jobs


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    start_logging()  # a server that dies is logged with the errors that it has printed
    workload = NANO if options.shape == "nano" else TINY
    jobs = options.jobs or [("t2v", size) for size in workload.memory_sizes]
    name = "modes" if options.engine == _OMNI else options.engine
    into = options.into or FOLDER / f"generator-{name}-{options.shape}.json"
    results: dict[str, Any] = {**circumstances(), "shape": options.shape}
    results |= {"torch": version("torch"), "frames": workload.frames, "steps": workload.steps, "modes": {}}
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        model = true_generator.build(workload.shape, work / "models")
        apart = {one for _, one in jobs} if options.engine != _DIFFUSERS else ()
        results["encodingSeconds"] = {size: encoding_seconds(size, workload.frames, work) for size in apart}
        for mode in options.modes:
            for measured in measure(model, MODES[mode], workload, jobs, options, work):
                results["engine"] = measured.pop("engine")
                results["modes"][mode] = measured
                into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")  # what was measured is kept
            print(json.dumps({mode: results["modes"][mode]}), flush=True)


def measure(
    model: Path,
    mode: ServerMode,
    workload: GeneratorWorkload,
    jobs: Sequence[tuple[str, str]],
    options: argparse.Namespace,
    work: Path,
) -> Iterator[dict[str, Any]]:
    """Start a server in a mode, and yield the figures of all jobs so far after each of them."""
    engine: Any = create_engine(options.engine)
    engine.guardrails, engine.lossy, engine.plan = False, ("seaCache",) if mode.sea_cache else (), mode.plan
    began = time.monotonic()
    with more_options(mode.options):
        engine.load(model)
    try:
        figures: dict[str, Any] = {}
        found = {"loadedSeconds": round(time.monotonic() - began, 1), "kinds": figures}
        for kind, size in jobs:
            drawn_clip(size, workload.frames)  # once, before it is needed
            job = _job_figures(engine, workload, kind, size, (kind, size) in options.first, work)
            figures.setdefault(kind, {})[size] = job
            yield {"engine": engine.name, **found}
        if options.pauses:
            with drawn_files():
                between = pauses_between_jobs(engine, workload, jobs[0][1], options.pauses, work)
            yield {"engine": engine.name, **found, **between}
    finally:
        engine.close()


def _job_figures(
    engine: Any, workload: GeneratorWorkload, kind: str, size: str, first: bool, work: Path
) -> dict[str, Any]:
    """Return the seconds of a job's phases and the peak of the GPU's memory; of a job that fails, its error."""
    try:
        return _made(engine, workload, kind, size, first, work)
    except (Failure, EngineDied) as failed:
        return {"error": failed.error.message}


def _made(engine: Any, workload: GeneratorWorkload, kind: str, size: str, first: bool, work: Path) -> dict[str, Any]:
    job = generation_for(workload, size, kind)
    for _ in range(1 + first):
        with tempfile.TemporaryDirectory(dir=work) as folder, _GpuMemory() as memory:
            files = GenerationFiles(_first_file(kind, size, workload.frames, Path(folder)), {})
            with drawn_files():
                output = asyncio.run(engine.generate(job, files, Path(folder)))
    return {"seconds": output.timings, "peakMiB": memory.peak}


def _first_file(kind: str, size: str, frames: int, folder: Path) -> Path | None:
    """Write the file from which a job of a kind starts; None if it starts from none."""
    medium = MEDIA.get(kind)
    if medium == "image":
        Image.linear_gradient("L").resize(sides(size)).convert("RGB").save(path := folder / "first.png")
        return path
    if medium == "video":
        write_video(path := folder / "first.mp4", drawn_clip(size, frames), exact_rate(24))
        return path
    return None


def encoding_seconds(size: str, frames: int, work: Path) -> float:
    """Return how long the worker takes to encode a smooth clip that moves, with a little grain."""
    pictures = drawn_clip(size, frames)
    with tempfile.TemporaryDirectory(dir=work) as folder:
        began = time.monotonic()
        write_video(Path(folder) / "clip.mp4", pictures, exact_rate(24))
        return round(time.monotonic() - began, 3)


@contextmanager
def drawn_files() -> Iterator[None]:
    """While the context lasts, have Diffusers' engine encode drawn clips in place of videos, but of a robot's."""

    def write_drawn(media: GeneratedMedia, generation: Generation, *others: Any) -> Any:
        if generation.is_video and generation.size and generation.num_frames:
            media = drawn_instead(media, drawn_clip(str(generation.size), generation.num_frames))
        return write_files(media, generation, *others)

    with mock.patch.object(diffusers_engine, "write_files", write_drawn):
        yield


@contextmanager
def more_options(options: Sequence[str]) -> Iterator[None]:
    """While the context lasts, start servers with these options after those of the worker."""
    command = OmniPlan.command
    OmniPlan.command = lambda *arguments: [*command(*arguments), *options]  # type: ignore[method-assign]
    try:
        yield
    finally:
        OmniPlan.command = command  # type: ignore[method-assign]


@dataclass
class _GpuMemory:
    """The most memory of the first GPU that was in use while the context lasted, in MiB; None without a GPU."""

    peak: int | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "_GpuMemory":
        self._watching = threading.Thread(target=self._watch, daemon=True)
        if shutil.which("nvidia-smi"):
            self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _watch(self) -> None:
        fields = ["--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        query = ["nvidia-smi", *gpus_of_this_process(first=True), *fields]
        while not self._ended.wait(SAMPLING_SECONDS):
            used = int(subprocess.run(query, check=True, capture_output=True, text=True).stdout)
            self.peak = max(self.peak or 0, used)


if __name__ == "__main__":
    main()
