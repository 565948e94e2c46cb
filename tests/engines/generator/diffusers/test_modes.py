"""Every mode of Diffusers' real pipelines on the tiny checkpoint gives a file with the right properties."""

import json
from pathlib import Path

import numpy as np
import pytest

from cosmos_batch.catalogue.generation import Size
from cosmos_batch.engines.generator.inputs import action_size
from cosmos_batch.media import ImageInfo, probe
from tests.engines.generator.diffusers.conftest import Make
from tests.support.generator_jobs import ACTIONS, FEW, ROWS, SMALL, refused, video


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg")])
def test_text_becomes_an_image(make: Make, image_format: str, suffix: str) -> None:
    result = make({"mode": "t2i", "image_format": image_format, **SMALL})
    assert result.file("image").suffix == suffix
    assert probe(result.file("image")) == ImageInfo(64, 48)
    assert result.output.timings.keys() == {"prepare", "firstStep", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, sound: bool) -> None:
    result = make({"mode": "t2v", "fps": 29.97, "sound": sound, **FEW})
    assert video(result.video) == (64, 48, 9, 29.97, sound)


@pytest.mark.parametrize("sound", [False, True])
def test_an_image_becomes_a_video_that_begins_with_it(make: Make, picture: Path, sound: bool) -> None:
    assert video(make({"sound": sound, **FEW}, picture).video) == (64, 48, 9, 24, sound)


@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_video_is_continued(make: Make, clip: Path, keep: str, sound: bool) -> None:
    parameters = {"condition_keep": keep, "sound": sound, **SMALL, "num_frames": 13}
    assert video(make(parameters, clip).video) == (64, 48, 13, 24, sound)


def test_actions_become_a_video(make: Make, picture: Path) -> None:
    result = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert video(result.video) == (320, 240, 5, 5, False)
    assert [file.role for file in result.output.files] == ["video"]
    assert result.output.generation.size == Size(320, 240)


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, clip: Path, mode: str) -> None:
    result = make({"mode": mode, **ACTIONS}, clip)
    assert video(result.video) == (320, 240, 5, 5, False)
    assert np.array(json.loads(result.file("actions").read_text())).shape == (4, 10)


def test_action_size_is_a_fixed_point_and_a_multiple_of_16() -> None:
    for width in range(16, 2000, 37):
        for height in range(16, 1200, 41):
            for tier in ("256p", "480p", "720p"):
                size = action_size(tier, width, height)
                assert action_size(tier, *size) == size
                assert not (size.width % 16 or size.height % 16)


def test_controls_become_a_video_chunk_by_chunk(make: Make, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps: list[tuple[int, int]] = []
    videos = {hint: {"path": f"s3://my-bucket/{hint}.mp4"} for hint in ("depth", "seg", "wsm")}
    controls = {"edge": {}, "blur": {}, **videos}
    parameters = {"mode": "transfer", "controls": controls, "frames_per_chunk": 9, **SMALL, "num_frames": 13}
    result = make(parameters, clip, progress=lambda *step: steps.append(step), controls=dict.fromkeys(videos, clip))
    assert video(result.video)[:3] == (64, 48, 13)
    assert steps == [(done, 4) for done in range(5)]  # two chunks of two steps
    assert "%|" not in capsys.readouterr().err


def test_control_with_its_own_video_is_used_unchanged(make: Make, clip: Path) -> None:
    parameters = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **FEW}
    assert video(make(parameters, controls={"depth": clip}).video)[:3] == (64, 48, 9)
    error = refused(make, parameters)
    assert error.code == "InvalidInput" and "controls.depth" in error.message


def test_a_control_that_is_an_image_is_refused(make: Make, picture: Path) -> None:
    parameters = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **FEW}
    assert "is an image" in refused(make, parameters, controls={"depth": picture}).message
