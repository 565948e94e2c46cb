"""Previews are opened again and compared with their video."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

from cosmos_batch.media import VideoInfo, previews, probe, write_contact_sheet, write_gif
from tests.support import media_files


def video_info(path: Path) -> VideoInfo:
    info = probe(path)
    assert isinstance(info, VideoInfo)
    return info


def greys(path: Path) -> list[float]:
    with Image.open(path) as image:
        return [float(np.asarray(one.convert("L")).mean()) for one in ImageSequence.Iterator(image)]


def milliseconds(path: Path) -> int:
    with Image.open(path) as image:
        return sum(one.info["duration"] for one in ImageSequence.Iterator(image))


def test_a_gif_shows_the_whole_video_at_its_speed(tmp_path: Path) -> None:
    video = media_files.video(tmp_path / "a.mp4", width=640, height=384)  # 4 s
    target = tmp_path / "a.mp4.previewFile.gif"
    write_gif(video, video_info(video), target)
    with Image.open(target) as image:
        assert (image.format, image.size, image.info["loop"]) == ("GIF", (320, 192), 0)
        assert 24 <= image.n_frames <= 32, "alike ones are one"
    assert milliseconds(target) == pytest.approx(4000, rel=0.05)
    shown = greys(target)
    assert shown == sorted(shown)
    assert (shown[0], shown[-1]) == pytest.approx((20, 220), abs=5)


def test_a_long_video_has_no_more_frames(tmp_path: Path) -> None:
    video = media_files.video(tmp_path / "a.mp4", frames=600, width=64, height=64)  # a minute
    write_gif(video, video_info(video), tmp_path / "a.gif")
    assert len(greys(tmp_path / "a.gif")) <= 80
    assert milliseconds(tmp_path / "a.gif") == pytest.approx(60_000, rel=0.05)


@pytest.mark.parametrize("limit", [150_000, 40_000, 1])
def test_a_gif_keeps_within_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    random = np.random.default_rng(0)
    video = media_files.video(tmp_path / "a.mp4", paint=lambda _: random.integers(0, 256, (128, 160, 3), np.uint8))
    monkeypatch.setattr(previews, "GIF_LIMIT", limit)
    write_gif(video, video_info(video), tmp_path / "a.gif")
    frames = len(greys(tmp_path / "a.gif"))
    assert (tmp_path / "a.gif").stat().st_size <= limit or frames == 1
    assert frames < 32
    if frames > 1:
        assert milliseconds(tmp_path / "a.gif") == pytest.approx(4000, rel=0.05)


def test_vams_limit_holds_for_the_worst_video(tmp_path: Path) -> None:
    """The video is noise, at the largest size and length of previews."""
    random = np.random.default_rng(0)
    video = media_files.video(
        tmp_path / "a.mp4",
        frames=70,
        width=320,
        height=320,
        paint=lambda _: random.integers(0, 256, (320, 320, 3), np.uint8),
    )
    write_gif(video, video_info(video), tmp_path / "a.gif")
    assert 500_000 < (tmp_path / "a.gif").stat().st_size <= 5 * 1024 * 1024


@pytest.mark.parametrize(("width", "height", "size"), [(96, 64, (96, 64)), (128, 640, (64, 320))])
def test_previews_keep_the_aspect_ratio_and_are_not_enlarged(
    tmp_path: Path, width: int, height: int, size: tuple[int, int]
) -> None:
    video = media_files.video(tmp_path / "a.mp4", frames=3, width=width, height=height)
    write_gif(video, video_info(video), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert image.size == size


@pytest.mark.parametrize(("frames", "columns", "rows"), [(40, 4, 4), (1, 1, 1), (5, 4, 2)])
def test_a_contact_sheet_shows_frames_from_first_to_last(tmp_path: Path, frames: int, columns: int, rows: int) -> None:
    video = media_files.video(tmp_path / "a.mp4", frames=frames)
    write_contact_sheet(video, video_info(video), tmp_path / "a.jpg")
    with Image.open(tmp_path / "a.jpg") as sheet:
        assert (sheet.format, sheet.size) == ("JPEG", (columns * 168 + 8, rows * 136 + 8))
        pixels = np.asarray(sheet.convert("L"))
    shown = [
        float(pixels[8 + row * 136 : 136 + row * 136, 8 + column * 168 : 168 + column * 168].mean())
        for row in range(rows)
        for column in range(columns)
    ][: min(16, frames)]
    assert shown == sorted(shown)
    assert (shown[0], shown[-1]) == pytest.approx((20, media_files.grey_at(frames - 1, frames)), abs=5)


def test_the_same_video_has_the_same_previews(tmp_path: Path) -> None:
    video = media_files.video(tmp_path / "a.mp4")
    for name in ("a", "b"):
        write_gif(video, video_info(video), tmp_path / f"{name}.gif")
        write_contact_sheet(video, video_info(video), tmp_path / f"{name}.jpg")
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    assert (tmp_path / "a.jpg").read_bytes() == (tmp_path / "b.jpg").read_bytes()
