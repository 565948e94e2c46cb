"""Written files are read again and have the requested frames, sound and metadata."""

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import Sound, exact_rate, write_image, write_video
from tests.support.mp4 import heard, pictures, read_mp4, times

COLOURS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0), (128, 128, 128))


def frames(count: int, width: int = 96, height: int = 64) -> Iterator[np.ndarray]:
    """Yield frames of which half is gray and gets brighter, and half is the same noise each time."""
    random = np.random.default_rng(0)
    for index in range(count):
        frame = random.integers(0, 256, (height, width, 3), np.uint8)
        frame[: height // 2] = 20 + 200 * index // count
        yield frame


def tone(seconds: float, rate: int = 48_000, channels: int = 2) -> Sound:
    """Return a tone of 440 Hz; a second channel is half as loud."""
    wave = 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)
    return Sound(np.stack([wave, wave / 2][:channels]).astype(np.float32), rate)


def test_a_video_with_sound_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    assert write_video(path, frames(61), Fraction(30000, 1001), tone(5)) == 61
    properties = read_mp4(path)
    assert (properties.codec, properties.profile, properties.pix_fmt) == ("h264", "High", "yuv420p")
    assert (properties.width, properties.height, properties.frames, properties.fps) == (
        96,
        64,
        61,
        Fraction(30000, 1001),
    )
    assert properties.seconds == pytest.approx(61 * 1001 / 30000, abs=1e-4)
    assert properties.sound == ("aac", 48_000, 2)
    assert properties.sound_seconds == pytest.approx(properties.seconds, abs=0.001), "cut to the video"
    assert properties.boxes.index("moov") < properties.boxes.index("mdat"), "plays before it is loaded"
    assert properties.colours == (1, 1, 1, 1), "BT.709, limited range"
    assert times(path) == pytest.approx([index * 1001 / 30000 for index in range(61)], abs=1e-4)


def test_a_video_without_sound_is_written(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", frames(5), Fraction(24))
    properties = read_mp4(tmp_path / "a.mp4")
    assert (properties.sound, properties.frames, properties.fps) == (None, 5, 24)


def test_frames_keep_their_order_and_colors(tmp_path: Path) -> None:
    plain = [np.full((64, 96, 3), colour, np.uint8) for colour in COLOURS]
    write_video(tmp_path / "a.mp4", plain, Fraction(24))
    for seen, colour in zip(pictures(tmp_path / "a.mp4"), COLOURS, strict=True):
        assert np.abs(seen.astype(int) - colour).max() <= 4


def test_a_moving_picture_with_grain_stays_near_to_its_frames(tmp_path: Path) -> None:
    """The limit is above what a CRF of 17 reaches with these frames; they are gray, because colors are halved."""
    random, (rows, columns) = np.random.default_rng(0), np.mgrid[0:128, 0:192]
    shades = [
        (rows + 2 * number) % 160 + (columns * 2 + number) // 8 % 60 + random.integers(0, 6, rows.shape)
        for number in range(24)
    ]
    grey = np.repeat(np.stack(shades)[..., None], 3, axis=3).astype(np.uint8)
    write_video(tmp_path / "a.mp4", grey, Fraction(24))
    errors = np.square(pictures(tmp_path / "a.mp4").astype(float) - grey).mean(axis=(1, 2, 3))
    assert 10 * np.log10(255**2 / errors.max()) > 43.5, "decibels of the worst frame"


def test_the_same_frames_make_the_same_file(tmp_path: Path) -> None:
    for name in ("a.mp4", "b.mp4"):
        write_video(tmp_path / name, frames(30), Fraction(24), tone(2))
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


def test_the_same_frames_make_the_same_file_on_a_busy_machine(tmp_path: Path) -> None:
    """At these sizes and lengths, x264 with its defaults differed one time in ten, and every second time."""
    noise = np.random.default_rng(0).integers(0, 256, (5, 240, 320, 3), np.uint8)
    videos = {"few": (noise, Fraction(5)), "many": (list(frames(30)), Fraction(24))}
    frames_written: dict[str, set[bytes]] = {name: set() for name in videos}
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        for _ in range(15):
            for name, (given_, rate) in videos.items():
                write_video(tmp_path / "a.mp4", given_, rate)
                frames_written[name].add((tmp_path / "a.mp4").read_bytes())
    finally:
        for one in busy:
            one.kill()
            one.wait()
    assert {name: len(files) for name, files in frames_written.items()} == {"few": 1, "many": 1}
    settings_of_x264 = frames_written["few"].pop()  # it writes them into each file
    assert all(one in settings_of_x264 for one in (b" mbtree=0 ", b" crf=15.0 ", b" subme=2 ", b" trellis=0 "))


def test_few_frames_are_in_memory(tmp_path: Path) -> None:
    alive: weakref.WeakSet[np.ndarray] = weakref.WeakSet()
    most = 0

    class Tracked(np.ndarray):
        """Arrays of a subclass with a hash; numpy's own cannot be in a WeakSet."""

        __hash__ = object.__hash__

    def tracked() -> Iterator[np.ndarray]:
        nonlocal most
        for frame in frames(200):
            one = frame.view(Tracked)
            alive.add(one)
            most = max(most, len(alive))
            yield one

    write_video(tmp_path / "a.mp4", tracked(), Fraction(24))
    assert most <= 3


def test_lossless_video_keeps_every_pixel(tmp_path: Path) -> None:
    """The frames are gray noise, because colors have half the resolution in any case."""
    random = np.random.default_rng(0)
    grey = [np.repeat(random.integers(0, 256, (64, 96, 1), np.uint8), 3, axis=2) for _ in range(5)]
    for name, lossless in (("lossless.mp4", True), ("usual.mp4", False)):
        write_video(tmp_path / name, grey, Fraction(24), lossless=lossless)
    assert np.abs(pictures(tmp_path / "lossless.mp4").astype(int) - np.stack(grey)).max() <= 2
    assert np.abs(pictures(tmp_path / "usual.mp4").astype(int) - np.stack(grey)).max() > 4
    assert read_mp4(tmp_path / "lossless.mp4").pix_fmt == "yuv420p"


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fps=st.one_of(st.floats(0.5, 120), st.sampled_from([23.976, 23.98, 29.97, 59.94, 119.88, 14.985, 12.5])),
    width=st.integers(1, 80).map(lambda half: 2 * half),
    height=st.integers(1, 80).map(lambda half: 2 * half),
    count=st.integers(1, 12),
    sounds=st.booleans(),
)
def test_any_rate_and_any_even_size_are_written(
    tmp_path: Path, fps: float, width: int, height: int, count: int, sounds: bool
) -> None:
    rate = exact_rate(fps)
    write_video(tmp_path / "a.mp4", frames(count, width, height), rate, tone(1) if sounds else None)
    properties = read_mp4(tmp_path / "a.mp4")
    assert (properties.width, properties.height, properties.frames) == (width, height, count)
    assert properties.seconds == pytest.approx(count / rate, rel=1e-3, abs=1e-3)
    assert count == 1 or properties.fps == pytest.approx(rate, rel=1e-4)
    if properties.sound_seconds is not None:
        assert properties.sound_seconds == pytest.approx(properties.seconds, abs=0.002)


@pytest.mark.parametrize(
    ("fps", "rate"),
    [
        (24, Fraction(24)),
        (29.97, Fraction(30000, 1001)),
        (23.98, Fraction(24000, 1001)),
        (23.976, Fraction(24000, 1001)),
        (59.94, Fraction(60000, 1001)),
        (12.5, Fraction(25, 2)),
        (30000 / 1001, Fraction(30000, 1001)),  # as it is measured
    ],
)
def test_broadcast_rates_are_exact(fps: float, rate: Fraction) -> None:
    assert exact_rate(fps) == rate


@given(st.floats(0.01, 240))
def test_every_exact_rate_is_near_the_rounded_rate(fps: float) -> None:
    assert float(exact_rate(fps)) == pytest.approx(fps, rel=5e-4, abs=5e-4)


def test_written_frame_rates_are_read_back_by_ffmpeg(tmp_path: Path) -> None:
    for name, fps in (("a.mp4", 29.97), ("b.mp4", 23.976), ("c.mp4", 24.0)):
        write_video(tmp_path / name, frames(25), exact_rate(fps))
        assert read_mp4(tmp_path / name).fps == exact_rate(fps)


@pytest.mark.parametrize(("channels", "rate"), [(1, 48_000), (1, 16_000), (2, 44_100)])
def test_other_sound_becomes_48_khz_stereo(tmp_path: Path, channels: int, rate: int) -> None:
    write_video(tmp_path / "a.mp4", frames(48), Fraction(24), tone(2, rate, channels))
    assert read_mp4(tmp_path / "a.mp4").sound == ("aac", 48_000, 2)
    left, right = heard(tmp_path / "a.mp4")[:, 10_000:80_000]
    spectrum = np.abs(np.fft.rfft(left))
    assert np.argmax(spectrum) * 48_000 / len(left) == pytest.approx(440, abs=2)
    assert left.std() / right.std() == pytest.approx(channels, rel=0.05)


def test_short_sound_is_followed_by_silence(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", frames(48), Fraction(24), tone(1))
    assert read_mp4(tmp_path / "a.mp4").sound_seconds == pytest.approx(2, abs=0.001)
    loud = np.abs(heard(tmp_path / "a.mp4"))
    assert loud[:, 10_000:40_000].max() > 0.4
    assert loud[:, 60_000:].max() < 0.01


def test_sound_beyond_its_range_is_clipped(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", frames(24), Fraction(24), Sound(tone(1).samples * 100))
    assert np.abs(heard(tmp_path / "a.mp4")).max() < 2


NOT_A_NUMBER = Sound(np.full((2, 48_000), np.nan, np.float32))
WRONG = {
    "no frames": ([], None, "without frames"),
    "odd sides": ([np.zeros((49, 81, 3), np.uint8)], None, "81 x 49"),
    "another size": ([np.zeros((64, 96, 3), np.uint8), np.zeros((64, 98, 3), np.uint8)], None, "frame 1 is 98 x 64"),
    "floats": ([np.zeros((64, 96, 3), np.float32)], None, "float32"),
    "grey": ([np.zeros((64, 96), np.uint8)], None, r"\[64, 96\]"),
    "empty": ([np.zeros((0, 0, 3), np.uint8)], None, r"\[0, 0, 3\]"),
    "sound without numbers": (list(frames(2)), NOT_A_NUMBER, "NaN"),
    "six channels": (list(frames(2)), Sound(np.zeros((6, 10), np.float32)), r"\[6, 10\]"),
}


@pytest.mark.parametrize(("frames_written", "sound", "word"), WRONG.values(), ids=WRONG)
def test_invalid_frames_or_sound_are_refused_and_leave_no_file(
    tmp_path: Path, frames_written: list[np.ndarray], sound: Sound | None, word: str
) -> None:
    with pytest.raises(Failure, match=word) as refused:
        write_video(tmp_path / "a.mp4", frames_written, Fraction(24), sound)
    assert refused.value.error.code == "EngineFailed"
    assert not list(tmp_path.iterdir())


def test_an_error_while_writing_leaves_no_file(tmp_path: Path) -> None:
    """The error comes after more frames than an encoder buffers, so that a file exists."""

    def breaking() -> Iterator[np.ndarray]:
        yield from frames(100, 32, 32)
        assert list(tmp_path.iterdir())
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_video(tmp_path / "a.mp4", breaking(), Fraction(24), tone(1))
    assert not list(tmp_path.iterdir())


def test_writing_ends_when_check_raises(tmp_path: Path) -> None:
    def check() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        write_video(tmp_path / "a.mp4", frames(10), Fraction(24), check=check)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "kind", "error"), [("a.png", "PNG", 0), ("a.jpg", "JPEG", 4)])
def test_images_are_written(tmp_path: Path, name: str, kind: str, error: int) -> None:
    pixels = np.zeros((48, 80, 3), np.uint8)
    pixels[:, 40:] = (200, 100, 50)
    write_image(tmp_path / name, pixels)
    write_image(tmp_path / f"again.{name}", pixels)
    with Image.open(tmp_path / name) as image:
        assert (image.format, image.size, image.mode) == (kind, (80, 48), "RGB")
        assert np.abs(np.asarray(image).astype(int) - pixels).max() <= error
    assert (tmp_path / name).read_bytes() == (tmp_path / f"again.{name}").read_bytes()


def test_an_array_that_is_no_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="float64"):
        write_image(tmp_path / "a.png", np.zeros((4, 4, 3)))
