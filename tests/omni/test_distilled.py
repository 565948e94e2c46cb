"""A distilled checkpoint in NVIDIA's shape runs on the real vLLM-Omni, in its own steps."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.media import ImageInfo, probe
from tests.support.generations import settled
from tests.support.generator_jobs import Files, kind_of, video
from tests.support.tiny_generators import build_distilled_generator

SIZE = {"width": 64, "height": 48}


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from cosmos_batch.engines.generator.vllm_omni.engine import VllmOmniEngine

    engine = VllmOmniEngine()
    engine.guardrails = False
    engine.load(build_distilled_generator(tmp_path_factory.mktemp("models")))
    yield engine
    engine.close()


def generate(engine: Any, folder: Path, parameters: dict[str, Any], medium: Path | None = None) -> Files:
    generation = settled({**SIZE, **parameters}, kind_of(medium), guardrails=False, engine="vllm-omni", fixed_steps=4)
    folder.mkdir(exist_ok=True)
    return Files(asyncio.run(engine.generate(generation, GenerationFiles(medium, {}), folder)), folder)


def test_images_and_videos_are_made_in_four_steps(distilled: Any, tmp_path: Path, picture: Path) -> None:
    image = generate(distilled, tmp_path / "image", {"mode": "t2i"})
    assert probe(image.file("image")) == ImageInfo(64, 48)
    made = generate(distilled, tmp_path / "video", {"mode": "i2v", "num_frames": 9}, picture)
    assert video(made.video) == (64, 48, 9, 24, False)
    assert made.output.generation.distilled and made.output.facts["scheduler"] == "FlowMatchEuler"


def test_a_job_that_was_planned_for_another_model_is_refused(distilled: Any, tmp_path: Path) -> None:
    plain = settled({**SIZE, "mode": "t2i"}, guardrails=False, engine="vllm-omni")
    with pytest.raises(Failure, match="4Step is distilled to 4 fixed steps"):
        asyncio.run(distilled.generate(plain, GenerationFiles(None, {}), tmp_path))
