"""Diffusers' real pipelines on the tiny checkpoint: every mode makes a file that is probed."""

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
    made = make({"mode": "t2i", "image_format": image_format, **SMALL})
    assert made.file("image").suffix == suffix
    assert probe(made.file("image")) == ImageInfo(64, 48)
    assert made.made.timings.keys() == {"prepare", "firstStep", "generate", "write"}


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, sound: bool) -> None:
    made = make({"mode": "t2v", "fps": 29.97, "sound": sound, **FEW})
    assert video(made.video) == (64, 48, 9, 29.97, sound)


@pytest.mark.parametrize("sound", [False, True])
def test_an_image_becomes_a_video_that_begins_with_it(make: Make, picture: Path, sound: bool) -> None:
    assert video(make({"sound": sound, **FEW}, picture).video) == (64, 48, 9, 24, sound)


@pytest.mark.parametrize("sound", [False, True])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_video_goes_on(make: Make, clip: Path, keep: str, sound: bool) -> None:
    said = {"condition_keep": keep, "sound": sound, **SMALL, "num_frames": 13}
    assert video(make(said, clip).video) == (64, 48, 13, 24, sound)


def test_actions_become_a_video(make: Make, picture: Path) -> None:
    made = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert video(made.video) == (320, 240, 5, 5, False)
    assert [one.role for one in made.made.files] == ["video"]
    assert made.made.generation.size == Size(320, 240)


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, clip: Path, mode: str) -> None:
    made = make({"mode": mode, **ACTIONS}, clip)
    assert video(made.video) == (320, 240, 5, 5, False)
    assert np.array(json.loads(made.file("actions").read_text())).shape == (4, 10)


def test_the_size_of_actions_fits_one_canvas() -> None:
    for width in range(16, 2000, 37):
        for height in range(16, 1200, 41):
            for tier in ("256p", "480p", "720p"):
                size = action_size(tier, width, height)
                assert action_size(tier, *size) == size
                assert not (size.width % 16 or size.height % 16)


def test_controls_become_a_video_chunk_by_chunk(make: Make, clip: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int]] = []
    given = {hint: {"path": f"s3://my-bucket/{hint}.mp4"} for hint in ("depth", "seg", "wsm")}
    controls = {"edge": {}, "blur": {}, **given}
    said = {"mode": "transfer", "controls": controls, "frames_per_chunk": 9, **SMALL, "num_frames": 13}
    made = make(said, clip, progress=lambda *step: told.append(step), controls=dict.fromkeys(given, clip))
    assert video(made.video)[:3] == (64, 48, 13)
    assert told == [(done, 4) for done in range(5)]  # two chunks of two steps
    assert "%|" not in capsys.readouterr().err


def test_a_control_that_was_given_is_taken_as_it_is(make: Make, clip: Path) -> None:
    said = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **FEW}
    assert video(make(said, controls={"depth": clip}).video)[:3] == (64, 48, 9)
    error = refused(make, said)
    assert error.code == "InvalidInput" and "controls.depth" in error.message


def test_a_control_that_is_an_image_is_refused(make: Make, picture: Path) -> None:
    said = {"mode": "transfer", "controls": {"depth": {"path": "s3://my-bucket/depth.mp4"}}, **FEW}
    assert "is an image" in refused(make, said, controls={"depth": picture}).message
