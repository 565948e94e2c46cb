"""A checkpoint with the switches of Cosmos3-Edge runs through the real pipelines of Diffusers."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.media import ImageInfo, probe
from tests.support.generations import settled
from tests.support.generator_jobs import ACTIONS, ROWS, SHORT, SMALL, Files, kind_of, video
from tests.support.tiny_generators import build_edge_generator


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiffusersEngine]:
    engine = DiffusersEngine()
    engine.guardrails = False
    engine.load(build_edge_generator(tmp_path_factory.mktemp("models")))
    yield engine
    engine.close()


def generate(engine: DiffusersEngine, folder: Path, parameters: dict[str, Any], medium: Path | None = None) -> Files:
    generation = settled({**SHORT, **parameters}, kind_of(medium), pipeline="cosmos3-edge", guardrails=False)
    job = engine.generate(generation, GenerationFiles(medium, {}), folder, lambda *_: None)
    return Files(asyncio.run(job), folder)


def test_an_image_is_made(edge: DiffusersEngine, tmp_path: Path) -> None:
    assert probe(generate(edge, tmp_path, {"mode": "t2i", **SMALL}).file("image")) == ImageInfo(64, 48)


def test_videos_are_made_of_text_and_of_an_image(edge: DiffusersEngine, tmp_path: Path, picture: Path) -> None:
    few = {**SMALL, "num_frames": 9}
    assert video(generate(edge, tmp_path, {"mode": "t2v", **few}).video) == (64, 48, 9, 24, False)
    assert video(generate(edge, tmp_path, {"mode": "i2v", **few}, picture).video) == (64, 48, 9, 24, False)


def test_actions_become_a_video_and_a_video_actions(
    edge: DiffusersEngine, tmp_path: Path, picture: Path, clip: Path
) -> None:
    made = generate(edge, tmp_path, {"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert video(made.video) == (320, 240, 5, 5, False)
    read = generate(edge, tmp_path, {"mode": "inverse_dynamics", **ACTIONS}, clip)
    assert np.array(json.loads(read.file("actions").read_text())).shape == (4, 10)


def test_it_generates_no_sound(edge: DiffusersEngine, tmp_path: Path) -> None:
    plain = settled({**SHORT, **SMALL, "sound": True, "num_frames": 9}, guardrails=False)
    with pytest.raises(Failure, match="sound"):
        asyncio.run(edge.generate(plain, GenerationFiles(None, {}), tmp_path, lambda *_: None))
