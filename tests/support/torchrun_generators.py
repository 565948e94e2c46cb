"""What the tests of the generators that run as torchrun groups have in common."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import Made
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

Make = Callable[..., Made]
Group = TypeVar("Group", bound=TorchrunGenerator)


def checkpoint_in(folder: Path) -> Path:
    """What our side reads of one; stand-ins read nothing."""
    for part in ("transformer", "text_tokenizer", "sound_tokenizer"):
        (folder / part).mkdir()
    write_json(folder / "sound_tokenizer" / "config.json", {})
    write_tokenizer(folder / "text_tokenizer", train_tokenizer())
    write_json(folder / "transformer" / "config.json", {"sound_gen": True, "action_gen": True})
    write_json(folder / "model_index.json", {})
    return folder


@contextmanager
def loaded(engine: Group, checkpoint: Path, standin: Path) -> Iterator[Group]:
    """On a stand-in, as a group of two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(standin), str(ROOT)]))
        engine.plan = ParallelPlan(cfg=2)
        engine.load(checkpoint)
        try:
            yield engine
        finally:
            engine.close()


def maker(engine: TorchrunGenerator, folder: Path) -> Make:
    """Makes what a caller says, without guardrails unless it says so."""

    def make(said: dict[str, Any], medium: Path | None = None, **how: Any) -> Made:
        controls = how.pop("controls", {})
        asked = settled(said, kind_of(medium), **{"guardrails": False, **how})
        engine._turn = asyncio.Lock()  # it is of the one loop that a worker has; each call here has its own
        return asyncio.run(engine.generate(asked, GenerationFiles(medium, controls), folder))

    return make


def video(folder: Path) -> tuple[int, int, int, float, bool]:
    return generator_jobs.video(folder / "output.mp4")
