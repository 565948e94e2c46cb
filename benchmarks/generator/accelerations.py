"""Benchmark of the generator: Diffusers unchanged, then with each of our accelerations added; same job and seed.

    python -m benchmarks.generator.accelerations [--shape tiny|nano] [--steps start,measures,memory]
        [--sizes 320x192,832x480] [--only baseline,all:320x192:832x480,...] [--kernels] [--engine NAME] [--into FILE]
        [--work DIR]

Use a GPU with the shape `nano`, or a CPU with `tiny`. Each result is written at once, and a run adds to the results of
the runs before. Frames are compared with those of the first measure of a size that has no lossy mode. `--kernels` also
generates with two steps in each measure, and records how long the GPU runs which kernels.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generator import start as generator_start
from benchmarks.generator import true_generator
from benchmarks.generator.jobs import (
    NANO,
    TINY,
    GeneratorWorkload,
    drawn_clip,
    drawn_instead,
    generation_for,
    words,
)
from benchmarks.generator.parts import kernels, profiled
from benchmarks.machine import circumstances
from benchmarks.results import FOLDER
from cosmos_batch.catalogue.generation import LossyMode
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.compile_cache import installed_version
from cosmos_batch.engines.generator.diffusers import lossy
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations, accelerate, disable_compilation
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedCheckpoint, import_libraries, load_checkpoint
from cosmos_batch.engines.generator.diffusers.frames import FrameQueue
from cosmos_batch.engines.generator.diffusers.generation import generate, settle_prompt_length
from cosmos_batch.engines.generator.inputs import PreparedGeneration, prepare
from cosmos_batch.engines.generator.outputs import GeneratedMedia, write_files
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.journal import Journal

LIBRARIES = ("torch", "diffusers", "fa3-fwd", "torchao")
STEPS = ("start", "measures", "memory")
PLAIN = Accelerations(**dict.fromkeys(asdict(Accelerations()), False))


@dataclass(frozen=True)
class Measure:
    """One row of the benchmark, which has one acceleration more than the row before.

    The row `baseline` calls Diffusers as its users do; all others call our engine.
    """

    name: str
    measures: Accelerations = PLAIN
    lossy: tuple[LossyMode, ...] = ()


ADDED = (
    Measure("baseline"),
    Measure("frames"),
    Measure("readOnce", replace(PLAIN, cached_prompts=True)),
    Measure("compiled", replace(PLAIN, cached_prompts=True, compiled=True)),
    Measure("channelsLast", replace(PLAIN, cached_prompts=True, compiled=True, channels_last=True)),
    Measure("givenOnly", replace(PLAIN, cached_prompts=True, compiled=True, channels_last=True, partial_encoding=True)),
    Measure("flashAttention", replace(Accelerations(), fused_decoder=False, shared_timestep=False, asynchronous=False)),
    Measure("fusedDecoder", replace(Accelerations(), shared_timestep=False, asynchronous=False)),
    Measure("sharedTimestep", replace(Accelerations(), asynchronous=False)),
    Measure("asynchronous", Accelerations()),
)
LOSSY = (
    Measure("stepCache", Accelerations(), ("stepCache",)),
    Measure("fp8Attention", Accelerations(), ("fp8Attention",)),
    Measure("fp8", Accelerations(), ("fp8",)),  # all later rows have it too, because it cannot be undone
    Measure("both", Accelerations(), ("fp8", "stepCache")),
    Measure("fp8Everywhere", Accelerations(), ("fp8", "fp8Attention")),
    Measure("all", Accelerations(), ("fp8", "fp8Attention", "stepCache")),
)
"""These are added to the last row of `ADDED`."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generator.accelerations", description=__doc__)
    parser.add_argument("--shape", choices=("tiny", "nano"), default="tiny")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--sizes", help="all of the shape's by default")
    every = ",".join(one.name for one in (*ADDED, *LOSSY))
    only = "measures, each with its sizes or with all; the others are compared with the first exact one of a size"
    parser.add_argument("--only", default=every, help=only)
    parser.add_argument("--kernels", action="store_true", help="record the GPU's kernels in each measure")
    parser.add_argument("--engine", default="diffusers", help="that starts; all other steps are of Diffusers")
    parser.add_argument("--into", type=Path, help="benchmarks/results/generator-SHAPE.json by default")
    parser.add_argument("--work", type=Path, help="kept folder of the checkpoint; a temporary one by default")
    return parser.parse_args(arguments)


def main() -> None:
    """Run the benchmark; the module's docstring has the options."""
    options = parse(sys.argv[1:])
    workload = NANO if options.shape == "nano" else TINY
    if options.sizes:
        workload = replace(workload, sizes=tuple(options.sizes.split(",")))
    into = options.into or FOLDER / f"generator-{options.shape}.json"
    with tempfile.TemporaryDirectory() as temporary:
        measure(
            workload,
            options.steps.split(","),
            chosen(options.only, workload.sizes),
            options.kernels,
            options.engine,
            options.work or Path(temporary),
            into,
        )


def chosen(only: str, sizes: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the sizes by measure that an option `--only` names; a measure without sizes has all of them."""
    parts = (one.split(":") for one in only.split(","))
    return {name: own or sizes for name, *own in parts}


def measure(
    workload: GeneratorWorkload,
    steps: Sequence[str],
    only: Mapping[str, Sequence[str]],
    with_kernels: bool,
    engine: str,
    work: Path,
    into: Path,
) -> None:
    """Run the steps in their order, and add their results to those in the file `into`. `only` are sizes by measure."""
    model = true_generator.build(workload.shape, work / "models")
    results: dict[str, Any] = json.loads(into.read_text(encoding="utf-8")) if into.exists() else {}
    here = {**circumstances(), **{library: installed_version(library) for library in LIBRARIES}}
    if strange := [name for name in ("machine", *LIBRARIES) if results.get(name, here[name]) != here[name]]:
        raise SystemExit(f"{into}: measured with another {' and '.join(strange)}; name another file with --into")
    results |= {
        **here,
        "workload": {**results.get("workload", {}), **asdict(workload), "sizes": None},
    }

    def keep() -> None:
        into.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    for step in STEPS:
        if step not in steps:
            continue
        began = time.monotonic()
        if step == "start":
            results.setdefault(step, {})[engine] = generator_start.measure(engine, model, workload, work)
            keep()
        elif step == "measures":
            for size, name, values in _measures(model, workload, only, with_kernels, results["workload"]):
                results.setdefault("sizes", {}).setdefault(size, {})[name] = values
                keep()
                summary = ", ".join(f"{part} {one}" for part, one in values["parts"].items())
                print(f"{size} {name}: {values['seconds']:.2f} s, {summary}", file=sys.stderr, flush=True)
        else:
            results[step] = _memory(model, workload)
            keep()
        print(f"{workload.shape} {step}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _measures(
    model: Path,
    workload: GeneratorWorkload,
    only: Mapping[str, Sequence[str]],
    with_kernels: bool,
    workload_record: dict[str, Any],
) -> Any:
    """Yield size, name of the row and results. Accelerations are added to one loaded model."""
    checkpoint = _load(model)
    references: dict[str, np.ndarray] = {}
    workload_record["promptTokens"] = [len(one) for one in _tokens(checkpoint, workload)]
    for one in (*ADDED, *LOSSY):
        if one.name not in only:
            continue
        try:
            lossy.refuse_lossy_modes(one.lossy, offload=False)
        except Failure as failure:
            print(f"{one.name} is skipped: {failure.error.message}", file=sys.stderr, flush=True)
            continue
        began = time.monotonic()
        checkpoint = _accelerated(checkpoint, one.measures, one.lossy)
        ready = time.monotonic() - began
        for size in only[one.name]:
            prepared = _prepared(checkpoint, workload, size)
            brief = replace(prepared, generation=prepared.generation.model_copy(update={"steps": 2}))
            _frames(one, checkpoint, brief)
            results, frames = _timed(one, checkpoint, prepared)
            if not one.lossy:
                references.setdefault(size, frames)
            apart = _difference(frames, references[size]) if size in references else {}
            found = {"kernels": kernels(partial(_frames, one, checkpoint, brief))} if with_kernels else {}
            yield size, one.name, {**results, "warmUp": round(ready, 2), **apart, **found}


def _load(model: Path) -> LoadedCheckpoint:
    journal = Journal()
    import_libraries(journal)
    return load_checkpoint(model, None, False, PLAIN, journal)


def _accelerated(
    checkpoint: LoadedCheckpoint, wanted: Accelerations, less_exact: Sequence[LossyMode] = ()
) -> LoadedCheckpoint:
    """Add those accelerations to a loaded model that it does not have yet, and return it."""
    import torch

    has = checkpoint.accelerations
    new = {name: value and not getattr(has, name) for name, value in asdict(wanted).items()}
    # Which kernel attends is decided as a layer is compiled.
    disable_compilation(checkpoint.omni)
    journal = Journal()
    # The prompts' cache leaves no step out, and FlashAttention computes in 16 bit, until a lossy mode is applied.
    again = ("compiled", "cached_prompts", "flash_attention", "fused_decoder")
    accelerate(
        checkpoint.omni,
        Accelerations(**{**new, **{name: getattr(wanted, name) for name in again}}),
        checkpoint.device,
        journal,
    )
    lossy.apply_lossy_modes(checkpoint.omni, less_exact)
    torch._dynamo.reset()
    accelerated = replace(checkpoint, accelerations=wanted, lossy=less_exact)
    accelerated.warm_up(journal)
    print(*journal.lines, sep="\n", file=sys.stderr, flush=True)
    return accelerated


def _prepared(checkpoint: LoadedCheckpoint, workload: GeneratorWorkload, size: str) -> PreparedGeneration:
    return settle_prompt_length(
        checkpoint, prepare(generation_for(workload, size), GenerationFiles(None, {}), lambda: None)
    )


def _tokens(checkpoint: LoadedCheckpoint, workload: GeneratorWorkload) -> tuple[list[int], list[int]]:
    results: tuple[list[int], list[int]] = checkpoint.omni.tokenize_prompt(
        words(workload), words(workload, "not"), num_frames=workload.frames, height=64, width=64, fps=24.0
    )
    return results


def _timed(
    one: Measure, checkpoint: LoadedCheckpoint, prepared: PreparedGeneration
) -> tuple[dict[str, Any], np.ndarray]:
    """Make a video, encode a drawn clip in its place, and return the figures and the video's frames.

    `seconds` are those until the GPU is done, and `whole` those until the file is written.
    """
    import torch

    generation = prepared.generation
    assert generation.num_frames is not None
    clip, frames = drawn_clip(str(prepared.size), generation.num_frames), list[np.ndarray]()
    on_gpu = checkpoint.device == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    with profiled(checkpoint.omni) as profile, ThreadPoolExecutor(1) as media, tempfile.TemporaryDirectory() as into:
        began = time.perf_counter()
        rendered, first = _generate(one, checkpoint, prepared)
        queue = FrameQueue()
        drawn = drawn_instead(replace(rendered, frames=queue), clip)
        writing = media.submit(write_files, drawn, generation, Path(into), lambda: None)
        queue.fill(_recorded(rendered.frames, frames), lambda: None)
        seconds = time.perf_counter() - began
        writing.result()
        whole = time.perf_counter() - began
    return {
        "seconds": round(seconds, 3),
        "whole": round(whole, 3),
        "firstStep": round(first, 3),
        "parts": profile.seconds(),
        "peakBytes": torch.cuda.max_memory_allocated() if on_gpu else None,
    }, np.stack(frames)


def _recorded(frames: Iterable[np.ndarray], into: list[np.ndarray]) -> Iterator[np.ndarray]:
    for frame in frames:
        into.append(frame)
        yield frame


def _frames(one: Measure, checkpoint: LoadedCheckpoint, prepared: PreparedGeneration) -> list[np.ndarray]:
    """Generate once with a measure, and decode all frames."""
    return [*_generate(one, checkpoint, prepared)[0].frames]


def _generate(one: Measure, checkpoint: LoadedCheckpoint, prepared: PreparedGeneration) -> tuple[GeneratedMedia, float]:
    """Generate once with a measure, and return the output and the seconds until the first step was done."""
    began, first = time.perf_counter(), [0.0]

    def progress(done: int, _total: int) -> None:
        if done == 1:
            first[0] = time.perf_counter() - began

    if one.name != "baseline":
        return generate(checkpoint, prepared, progress), first[0]
    return GeneratedMedia(_generate_with_diffusers(checkpoint, prepared, progress)), first[0]


def _generate_with_diffusers(checkpoint: LoadedCheckpoint, prepared: PreparedGeneration, progress: Any) -> np.ndarray:
    """Generate as Diffusers' own example does: PIL pictures, and a scheduler with NVIDIA's settings."""
    import diffusers
    import torch

    omni, job = checkpoint.omni, prepared.generation
    scheduler = diffusers.UniPCMultistepScheduler.from_config(
        omni.scheduler.config, flow_shift=job.flow_shift, use_karras_sigmas=False
    )
    omni.register_modules(scheduler=scheduler)
    pictures = omni(
        prompt=job.prompt,
        negative_prompt=job.negative_prompt,
        num_frames=job.num_frames,
        height=prepared.size.height,
        width=prepared.size.width,
        fps=job.fps,
        num_inference_steps=job.steps,
        guidance_scale=job.guidance_scale,
        add_resolution_template=job.use_resolution_template,
        add_duration_template=job.use_duration_template,
        generator=torch.Generator("cpu").manual_seed(job.seed),
        enable_safety_check=False,
        callback_on_step_end=lambda _pipeline, step, *_: progress(step + 1, job.steps) or {},
    ).video
    return np.stack([np.asarray(picture) for picture in pictures])


def _difference(frames: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Return the largest and the mean difference between pixel values (0 to 255)."""
    apart = np.abs(frames.astype(np.int16) - reference)
    return {"largest": int(apart.max()), "mean": round(float(apart.mean()), 4)}


def _memory(model: Path, workload: GeneratorWorkload) -> dict[str, Any]:
    """Return the peak memory of two steps with all accelerations. All steps need the same memory."""
    checkpoint = _accelerated(_load(model), Accelerations())
    results = {}
    for size in workload.memory_sizes:
        brief = replace(workload, steps=2)
        one = Measure("default", checkpoint.accelerations)
        results[size] = _timed(one, checkpoint, _prepared(checkpoint, brief, size))[0]
    return results


if __name__ == "__main__":
    main()
