"""A distilled checkpoint in NVIDIA's shape runs through the real pipelines of Diffusers, in its own steps."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.media import ImageInfo, probe
from tests.engines.generator.diffusers.conftest import Make
from tests.support.generations import settled
from tests.support.generator_jobs import Files, kind_of, video
from tests.support.tiny_generators import NOISE_LEVELS, build_distilled_generator

SIZE = {"width": 64, "height": 48, "seed": 1}
IMAGE = {"mode": "t2i", **SIZE}
VIDEO = {"mode": "i2v", **SIZE, "num_frames": 9}


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiffusersEngine]:
    engine = DiffusersEngine()
    engine.guardrails = False
    engine.load(build_distilled_generator(tmp_path_factory.mktemp("models")))
    yield engine
    engine.close()


def generate(engine: DiffusersEngine, folder: Path, parameters: dict[str, Any], medium: Path | None = None) -> Files:
    steps: list[tuple[int, int]] = []
    generation = settled(parameters, kind_of(medium), guardrails=False, fixed_steps=4)
    folder.mkdir(exist_ok=True)
    job = engine.generate(
        generation, GenerationFiles(medium, {}), folder, lambda done, total: steps.append((done, total))
    )
    result = Files(asyncio.run(job), folder)
    assert steps == [(done, 4) for done in range(5)]
    return result


def test_an_image_is_made_in_four_steps_without_guidance(distilled: DiffusersEngine, tmp_path: Path) -> None:
    result = generate(distilled, tmp_path, IMAGE)
    assert probe(result.file("image")) == ImageInfo(64, 48)
    done = result.output.generation
    assert (done.distilled, done.steps, done.guidance_scale, done.negative_prompt) == (True, 4, 1.0, "")
    assert result.output.facts["scheduler"] == "FlowMatchEuler"


def test_an_image_becomes_a_video(distilled: DiffusersEngine, tmp_path: Path, picture: Path) -> None:
    assert video(generate(distilled, tmp_path, VIDEO, picture).video) == (64, 48, 9, 24, False)


def test_the_steps_are_at_the_noise_levels_of_the_checkpoint(
    distilled: DiffusersEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler

    levels: list[float] = []
    step = FlowMatchEulerDiscreteScheduler.step

    def noting_step(self: Any, velocity: Any, timestep: Any, *arguments: Any, **options: Any) -> Any:
        levels.append(float(timestep) / 1000)
        assert self.config.stochastic_sampling
        return step(self, velocity, timestep, *arguments, **options)

    monkeypatch.setattr(FlowMatchEulerDiscreteScheduler, "step", noting_step)
    generate(distilled, tmp_path, IMAGE)
    assert levels == pytest.approx(NOISE_LEVELS)


def test_the_seed_decides_the_image(distilled: DiffusersEngine, tmp_path: Path) -> None:
    def pixels(name: str, seed: int) -> np.ndarray:
        return np.asarray(Image.open(generate(distilled, tmp_path / name, {**IMAGE, "seed": seed}).file("image")))

    first = pixels("first", 1)
    assert np.array_equal(first, pixels("again", 1)) and not np.array_equal(first, pixels("other", 2))


def test_a_job_that_was_planned_for_another_kind_of_model_is_refused(
    distilled: DiffusersEngine, make: Make, tmp_path: Path
) -> None:
    plain = settled({**IMAGE, "steps": 4, "guidance_scale": 1}, guardrails=False)
    with pytest.raises(
        Failure, match=r"4Step is distilled to 4 fixed steps, and the job was .* not distilled"
    ) as raised:
        asyncio.run(distilled.generate(plain, GenerationFiles(None, {}), tmp_path, lambda *_: None))
    assert raised.value.error.code == "ModelUnavailable" and not raised.value.error.retryable
    with pytest.raises(Failure, match=r"is not distilled, and the job was planned for .* distilled to 4 fixed steps"):
        make(IMAGE | {"negative_prompt": ""}, fixed_steps=4)
