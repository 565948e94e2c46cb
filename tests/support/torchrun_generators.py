"""Helpers for the tests of generators that run as torchrun groups: a checkpoint, a group of two, a maker of jobs."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.demo.tokenizer import train_tokenizer, write_json, write_tokenizer
from cosmos_batch.engines.generator.torchrun_engine import TorchrunGenerator
from cosmos_batch.engines.job_files import GenerationFiles
from tests.support import generator_jobs
from tests.support.generations import settled
from tests.support.generator_jobs import kind_of

ROOT = Path(__file__).parents[2]
SMALL = {"resolution": "256p", "aspectRatio": "16:9", "steps": 2}
FEW = {"numFrames": 9}
ROWS = [[0.25] * 10] * 4

Make = Callable[..., GeneratorOutput]
Group = TypeVar("Group", bound=TorchrunGenerator)


def checkpoint_in(folder: Path) -> Path:
    """Write the files of a checkpoint that the worker's process reads. The stand-ins read none."""
    for part in ("transformer", "text_tokenizer", "sound_tokenizer"):
        (folder / part).mkdir()
    write_json(folder / "sound_tokenizer" / "config.json", {})
    write_tokenizer(folder / "text_tokenizer", train_tokenizer())
    write_json(folder / "transformer" / "config.json", {"sound_gen": True, "action_gen": True})
    write_json(folder / "model_index.json", {})
    return folder


@contextmanager
def loaded(engine: Group, checkpoint: Path, standin: Path) -> Iterator[Group]:
    """Load an engine as a group of two processes on a stand-in for its library."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(standin), str(ROOT)]))
        engine.plan = ParallelPlan(cfg=2)
        engine.load(checkpoint)
        try:
            yield engine
        finally:
            engine.close()


def maker(engine: TorchrunGenerator, folder: Path) -> Make:
    """Return a function that generates with an engine, without guardrails unless they are switched on."""

    def make(parameters: dict[str, Any], medium: Path | None = None, **options: Any) -> GeneratorOutput:
        controls = options.pop("controls", {})
        generation = settled(parameters, kind_of(medium), **{"guardrails": False, **options})
        engine._turn = asyncio.Lock()  # a lock belongs to one event loop, and each call here has a new one
        return asyncio.run(engine.generate(generation, GenerationFiles(medium, controls), folder))

    return make


def video(folder: Path) -> tuple[int, int, int, float, bool]:
    return generator_jobs.video(folder / "output.mp4")
