"""The real server generates every mode, and its files have the right properties."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import ImageInfo, exact_rate, probe
from tests.omni.conftest import Make
from tests.support.generator_jobs import ACTIONS, FEW, ROWS, SMALL, TABLE, Files, check
from tests.support.mp4 import pictures, read_mp4

GIVEN = {"path": "s3://my-bucket/given.mp4"}


def video(result: Files) -> tuple[int, int, int, float, bool]:
    """Check that the file is the promised kind of MP4, and return its width, height, frames, rate and sound."""
    path, generation = result.video, result.output.generation
    assert generation.fps
    check(path, generation)
    file = read_mp4(path)
    assert (file.codec, file.pix_fmt, file.fps) == ("h264", "yuv420p", exact_rate(generation.fps))
    assert file.boxes.index("moov") < file.boxes.index("mdat")
    assert file.sound in (None, ("aac", 48_000, 2))
    assert file.sound_seconds is None or file.sound_seconds <= file.seconds + 0.001
    return file.width, file.height, file.frames, round(float(file.fps), 3), file.sound is not None


@pytest.mark.parametrize(("image_format", "suffix"), [("png", ".png"), ("jpeg", ".jpg")])
def test_text_becomes_an_image(make: Make, image_format: str, suffix: str) -> None:
    result = make({"mode": "t2i", "image_format": image_format, **SMALL})
    assert result.file("image").suffix == suffix and probe(result.file("image")) == ImageInfo(64, 48)


@pytest.mark.parametrize("sound", [False, True])
def test_text_becomes_a_video(make: Make, sound: bool) -> None:
    assert video(make({"mode": "t2v", "fps": 29.97, "sound": sound, **FEW})) == (64, 48, 9, 29.97, sound)


@pytest.mark.parametrize("sound", [False, True])
def test_an_image_becomes_a_video(make: Make, picture: Path, sound: bool) -> None:
    assert video(make({"sound": sound, **FEW}, picture)) == (64, 48, 9, 24, sound)


@pytest.mark.parametrize(("keep", "sound"), [("first", False), ("last", True)])
def test_video_is_continued(make: Make, clip: Path, keep: str, sound: bool) -> None:
    parameters = {"condition_keep": keep, "sound": sound, **SMALL, "num_frames": 13}
    assert video(make(parameters, clip)) == (64, 48, 13, 24, sound)


def test_actions_become_a_video(make: Make, picture: Path) -> None:
    result = make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, picture)
    assert video(result) == (320, 240, 5, 5, False)
    first = pictures(result.video)
    other = make({"mode": "forward_dynamics", "action": [[-0.9] * 10] * 4, **ACTIONS}, picture)
    assert not np.array_equal(first, pictures(other.video)), "the model saw them"


@pytest.mark.parametrize("mode", ["inverse_dynamics", "policy"])
def test_a_video_becomes_actions(make: Make, clip: Path, mode: str) -> None:
    result = make({"mode": mode, **ACTIONS}, clip)
    assert video(result) == (320, 240, 5, 5, False)
    assert np.array(json.loads(result.file("actions").read_text())).shape == (4, 10)


@pytest.mark.parametrize(
    "controls", [{"edge": {}}, {"edge": {"weight": 0.5}, "blur": {}, "depth": GIVEN, "seg": GIVEN, "wsm": GIVEN}]
)
def test_controls_become_a_video_chunk_by_chunk(make: Make, clip: Path, controls: dict[str, Any]) -> None:
    given = {hint: clip for hint, control in controls.items() if "path" in control}
    result = make({"controls": controls, "frames_per_chunk": 5, **TABLE}, clip, **given)
    assert video(result) == (320, 192, 9, 12, False)


def test_the_seed_decides_and_jobs_leave_nothing_behind(make: Make) -> None:
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    first = pictures(make({**parameters, "seed": 1}).video)
    assert not np.array_equal(first, pictures(make({**parameters, "seed": 2}).video))
    assert not np.array_equal(first, pictures(make({**parameters, "seed": 1, "flow_shift": 2.0}).video))
    assert np.array_equal(first, pictures(make({**parameters, "seed": 1}).video))


def test_a_request_that_the_model_refuses_fails_that_job_alone(
    make: Make, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server answers 500 to a ValueError of the model's, here for a size that is in none of its tables."""
    from cosmos_batch.engines.generator.vllm_omni import requests as vllm_omni_requests

    server = engine._served._server
    monkeypatch.setattr(vllm_omni_requests, "_extra", lambda _: {"action_mode": "policy", "domain_name": "nobody"})
    with pytest.raises(Failure, match="nobody") as raised:
        make({"mode": "t2v", **FEW})
    assert raised.value.error.code == "EngineFailed" and raised.value.error.retryable
    monkeypatch.undo()
    assert video(make({"mode": "t2v", **FEW})) and engine._served._server is server


def test_a_request_that_the_servers_schema_refuses_is_not_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cosmos_batch.engines.generator.vllm_omni import requests as vllm_omni_requests

    common = vllm_omni_requests._common
    monkeypatch.setattr(
        vllm_omni_requests, "_common", lambda prepared: {**common(prepared), "num_inference_steps": 201}
    )
    for mode in ("t2i", "t2v"):
        with pytest.raises(Failure, match="HTTP 400") as raised:
            make({**SMALL, "mode": mode})
        assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable


def test_files_do_not_pile_up(make: Make, engine: Any) -> None:
    make({"mode": "t2v", **FEW})
    videos = engine._served._server.folder / "videos"
    assert videos.is_dir() and not list(videos.iterdir())
