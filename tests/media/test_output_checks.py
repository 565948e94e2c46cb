"""Generated files that differ from the request are refused, and suspicious ones are noted."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import (
    Sound,
    WantedVideo,
    check_actions,
    check_image,
    check_video,
    exact_rate,
    write_image,
    write_video,
)
from tests.support import media_files

WANTED = WantedVideo(96, 64, 13, Fraction(24))


def moving(count: int = 13, width: int = 96, height: int = 64) -> list[np.ndarray]:
    """Yield frames with a bright square that moves from left to right."""
    frames = [np.zeros((height, width, 3), np.uint8) for _ in range(count)]
    for index, frame in enumerate(frames):
        frame[16:48, index * 4 : index * 4 + 32] = 200
    return frames


def tone() -> Sound:
    return Sound(np.sin(np.arange(48_000) / 20)[None].astype(np.float32) / 2)


def check(folder: Path, wanted: WantedVideo = WANTED, **changes: object) -> list[str]:
    options = {"frames": moving(), "fps": Fraction(24), "sound": None, **changes}
    write_video(folder / "a.mp4", **options)  # type: ignore[arg-type]
    return check_video(folder / "a.mp4", wanted)


@pytest.mark.parametrize("fps", [24, 29.97, 23.976, 10, 12.5, 59.94])
@pytest.mark.parametrize("sound", [None, tone()])
def test_a_video_as_requested_passes_without_notes(tmp_path: Path, fps: float, sound: Sound | None) -> None:
    wanted = WantedVideo(96, 64, 13, exact_rate(fps), sound is not None)
    assert check(tmp_path, wanted, fps=exact_rate(fps), sound=sound) == []


def test_a_long_video_at_a_broadcast_rate_passes(tmp_path: Path) -> None:
    wanted = WantedVideo(32, 32, 189, Fraction(30000, 1001))
    frames = [np.full((32, 32, 3), index, np.uint8) for index in range(189)]
    frames[0][:8] = 255
    assert check(tmp_path, wanted, frames=frames, fps=wanted.fps) == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fps=st.floats(0.5, 120), count=st.integers(1, 13), sound=st.booleans())
def test_every_video_that_is_written_here_passes(tmp_path: Path, fps: float, count: int, sound: bool) -> None:
    wanted = WantedVideo(96, 64, count, exact_rate(fps), sound)
    check(tmp_path, wanted, frames=moving(count), fps=wanted.fps, sound=tone() if sound else None)


WRONG: dict[str, tuple[WantedVideo, str]] = {
    "one frame": (replace(WANTED, frames=189), "13 instead of 189 frames"),
    "one frame too many": (replace(WANTED, frames=12), "13 instead of 12 frames"),
    "size": (replace(WANTED, width=64, height=96), "96 x 64 instead of 64 x 96 pixels"),
    "rate": (replace(WANTED, fps=Fraction(30)), "24 instead of 30 frames a second"),
    "nearly the rate": (replace(WANTED, fps=Fraction(24000, 1001)), r"24 instead of 23\.976 frames a second"),
    "sound": (replace(WANTED, sound=True), "no sound"),
    "several": (WantedVideo(64, 64, 5, Fraction(30), True), r"frames; .* pixels; .* a second; no sound"),
}


@pytest.mark.parametrize(("wanted", "word"), WRONG.values(), ids=WRONG)
def test_a_video_that_differs_from_the_request_is_refused(tmp_path: Path, wanted: WantedVideo, word: str) -> None:
    with pytest.raises(Failure, match=word) as refused:
        check(tmp_path, wanted)
    assert refused.value.error.code == "EngineFailed"
    assert refused.value.error.remedy


def test_one_frame_instead_of_189_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="1 instead of 189 frames"):
        check(tmp_path, replace(WANTED, frames=189), frames=moving(1))


@pytest.mark.parametrize("make", [make for make, _ in media_files.REFUSED.values()], ids=list(media_files.REFUSED))
def test_files_that_are_no_video_are_the_engines_fault(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(Failure) as refused:
        check_video(make(tmp_path), WANTED)
    assert refused.value.error.code == "EngineFailed"


def test_an_image_is_no_video_and_a_video_no_image(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="an image; a video was asked for"):
        check_video(media_files.image(tmp_path / "a.png"), WANTED)
    with pytest.raises(Failure, match="a video instead of an image"):
        check_image(media_files.video(tmp_path / "a.mp4"), 160, 128)


def test_frames_that_cannot_be_decoded_are_missing(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"only \d+ of 40 frames can be decoded"):
        check_video(media_files.mp4_with_damage(tmp_path), WantedVideo(160, 128, 40, Fraction(10)))


def test_damage_anywhere_is_refused_or_harmless(tmp_path: Path) -> None:
    write_video(tmp_path / "whole.mp4", moving(), Fraction(24), tone())
    whole = (tmp_path / "whole.mp4").read_bytes()
    random = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        for position in random.integers(0, len(data), 8):
            data[position] = random.integers(0, 256)
        (tmp_path / "a.mp4").write_bytes(data)
        try:
            check_video(tmp_path / "a.mp4", replace(WANTED, sound=True))
        except Failure as refused:
            assert refused.error.code == "EngineFailed"


@pytest.mark.parametrize(
    ("frames", "note"),
    [
        ([np.zeros((64, 96, 3), np.uint8)] * 13, "All 13 frames of the video are alike: black."),
        ([np.full((64, 96, 3), 128, np.uint8)] * 13, "alike: of one colour, RGB 128 128 128."),
        (moving()[:1] * 13, "All 13 frames of the video are alike: nothing moves."),
        ([np.full((64, 96, 3), 10 * index, np.uint8) for index in range(13)], "of one colour each"),
    ],
)
def test_a_video_that_looks_wrong_is_noted(tmp_path: Path, frames: list[np.ndarray], note: str) -> None:
    (only_note,) = check(tmp_path, frames=frames)
    assert note in only_note


def test_a_video_of_one_frame_is_not_noted_as_still(tmp_path: Path) -> None:
    assert check(tmp_path, replace(WANTED, frames=1), frames=moving(1)) == []


def test_silence_is_noted(tmp_path: Path) -> None:
    silence = Sound(np.zeros((2, 48_000), np.float32))
    assert check(tmp_path, replace(WANTED, sound=True), sound=silence) == ["The sound is silent."]


def test_images_are_checked(tmp_path: Path) -> None:
    write_image(tmp_path / "a.png", moving(1)[0])
    assert check_image(tmp_path / "a.png", 96, 64) == []
    with pytest.raises(Failure, match="96 x 64 instead of 64 x 96 pixels") as refused:
        check_image(tmp_path / "a.png", 64, 96)
    assert refused.value.error.code == "EngineFailed"
    write_image(tmp_path / "b.jpg", np.zeros((64, 96, 3), np.uint8))
    assert check_image(tmp_path / "b.jpg", 96, 64) == ["The image is black."]
    with pytest.raises(Failure, match="truncated") as damaged:
        check_image(media_files.cut_jpg(tmp_path), 200, 200)
    assert damaged.value.error.code == "EngineFailed"


def test_actions_are_checked() -> None:
    check_actions(np.zeros((16, 9)), 16, 9)
    with pytest.raises(Failure, match=r"\[16, 64\] instead of \[16, 9\]") as refused:
        check_actions(np.zeros((16, 64)), 16, 9)
    assert refused.value.error.code == "EngineFailed"
