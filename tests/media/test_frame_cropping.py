"""The inputs of a generator have exactly the requested size and length, and show the same picture."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.video.reformatter import Colorspace, ColorTrc, VideoReformatter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import (
    VideoInfo,
    first_frame_times,
    frame_count_at,
    frame_times_at,
    frames_at_size,
    image_at_size,
    probe,
)
from cosmos_batch.media.timeline import Timeline
from tests.support import media_files

ORIENTATION = 0x0112  # the EXIF tag
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def timeline_of(path: Path) -> Timeline:
    info = probe(path)
    assert isinstance(info, VideoInfo)
    return info.timeline


def covered(path: Path, size: tuple[int, int], times: list[float] | None = None) -> np.ndarray:
    timeline = timeline_of(path)
    return np.stack(list(frames_at_size(path, timeline, times or first_frame_times(timeline, 1), size)))


def stripes(width: int, height: int) -> np.ndarray:
    """Return a picture of three equal stripes: red, green, blue."""
    picture = np.zeros((height, width, 3), np.uint8)
    for index, colour in enumerate((RED, GREEN, BLUE)):
        picture[:, index * width // 3 : (index + 1) * width // 3] = colour
    return picture


def greys(frames: np.ndarray) -> list[int]:
    return [round(float(frame.mean())) for frame in frames]


def near(pixel: np.ndarray, colour: tuple[int, int, int]) -> bool:
    return bool(np.abs(pixel.astype(int) - colour).max() <= 30)


@pytest.mark.parametrize("size", [(64, 64), (128, 32), (32, 128), (96, 80), (640, 480)])
def test_an_image_is_scaled_and_cropped_to_its_center(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.fromarray(stripes(240, 80)).save(tmp_path / "a.png")
    pixels = image_at_size(tmp_path / "a.png", size)
    assert (pixels.shape, pixels.dtype) == ((size[1], size[0], 3), np.uint8)
    assert near(pixels[size[1] // 2, size[0] // 2], GREEN)
    if size == (128, 32):  # wider than the image: all of its width is there
        assert near(pixels[16, 2], RED) and near(pixels[16, -3], BLUE)
    if size == (32, 128):  # much narrower: only the middle
        assert near(pixels[64, 2], GREEN) and near(pixels[64, -3], GREEN)


def test_the_aspect_ratio_is_kept(tmp_path: Path) -> None:
    """A stretched image, as one engine would make it, would show an ellipse."""
    rows, columns = np.mgrid[:100, :300]
    disc = ((rows - 50) ** 2 + (columns - 150) ** 2 < 40**2).astype(np.uint8) * 255
    Image.fromarray(disc).save(tmp_path / "a.png")
    inside = image_at_size(tmp_path / "a.png", (200, 200))[:, :, 0] > 128
    assert inside.any(0).sum() == pytest.approx(inside.any(1).sum(), abs=2) == pytest.approx(160, abs=3)


def test_a_phones_image_is_rotated_before_it_is_cropped(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 6  # the upper side of the scene is stored on the left
    Image.fromarray(stripes(240, 80)).save(tmp_path / "a.png", exif=exif)
    pixels = image_at_size(tmp_path / "a.png", (80, 240))
    assert near(pixels[10, 40], RED) and near(pixels[-10, 40], BLUE)


def test_transparency_becomes_white(tmp_path: Path) -> None:
    Image.new("RGBA", (63, 65), (255, 0, 0, 0)).save(tmp_path / "a.png")
    assert (image_at_size(tmp_path / "a.png", (32, 32)) == 255).all()


def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path) -> None:
    Image.fromarray(np.full((64, 64), 0x8000, np.uint16)).save(tmp_path / "a.png")
    assert (image_at_size(tmp_path / "a.png", (32, 48)) == 128).all()


def test_a_damaged_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="truncated"):
        image_at_size(media_files.cut_jpg(tmp_path), (64, 64))


def test_a_pdf_with_the_name_of_an_image_is_refused_when_it_is_probed(tmp_path: Path) -> None:
    path = tmp_path / "scan.png"
    path.write_bytes(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n")
    with pytest.raises(Failure, match=r"a PDF document, but the name ends in \.png") as refused:
        probe(path)
    assert refused.value.error.code == "InvalidInput"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(1, 300), height=st.integers(1, 300), columns=st.integers(1, 12), rows=st.integers(1, 12))
def test_any_image_has_exactly_the_size_or_is_refused(
    tmp_path: Path, width: int, height: int, columns: int, rows: int
) -> None:
    path = media_files.image(tmp_path / "a.png", width, height)
    size = (16 * columns, 16 * rows)
    ratio = (width / height) / (columns / rows)
    if 1 / 16 <= ratio <= 16:
        assert image_at_size(path, size).shape == (size[1], size[0], 3)
    else:
        with pytest.raises(Failure, match="16th of it"):
            image_at_size(path, size)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(8, 90), height=st.integers(8, 90), columns=st.integers(1, 9), rows=st.integers(1, 9))
def test_any_video_has_exactly_the_size(tmp_path: Path, width: int, height: int, columns: int, rows: int) -> None:
    """Odd sizes are included, because VP9 can store them."""
    path = media_files.video(tmp_path / "a.webm", frames=1, width=width, height=height)
    size = (16 * columns, 16 * rows)
    if 1 / 16 <= (width / height) / (columns / rows) <= 16:
        assert covered(path, size).shape == (1, size[1], size[0], 3)


@pytest.mark.parametrize("size", [(160, 128), (64, 64), (256, 64), (48, 128)])
def test_a_video_is_scaled_and_cropped_to_its_center(tmp_path: Path, size: tuple[int, int]) -> None:
    path = media_files.video(tmp_path / "a.mp4", width=240, height=80, paint=lambda _: stripes(240, 80))
    frame = covered(path, size)[0]
    assert near(frame[size[1] // 2, size[0] // 2], GREEN)
    if size == (256, 64):
        assert near(frame[32, 4], RED) and near(frame[32, -5], BLUE)
    if size == (48, 128):
        assert near(frame[64, 4], GREEN) and near(frame[64, -5], GREEN)


@pytest.mark.parametrize(("rotation", "first"), [(90, "left"), (-90, "right"), (180, "bottom")])
def test_a_phones_video_is_rotated_before_it_is_cropped(tmp_path: Path, rotation: int, first: str) -> None:
    """The upper half of the stored frame is red, the lower half blue."""

    def paint(_: int) -> np.ndarray:
        picture = np.zeros((128, 160, 3), np.uint8)
        picture[:64], picture[64:] = RED, BLUE
        return picture

    path = media_files.video(tmp_path / "a.mp4", rotation=rotation, paint=paint)
    frame = covered(path, (96, 112))[0]
    places = {"left": frame[56, 10], "right": frame[56, -10], "bottom": frame[-10, 48]}
    assert near(places[first], RED)
    assert frame.shape == (112, 96, 3)


@pytest.mark.parametrize("size", [(128, 48), (48, 128), (320, 64)])
def test_a_rotated_video_is_cropped_to_any_size(tmp_path: Path, size: tuple[int, int]) -> None:
    assert covered(media_files.video(tmp_path / "a.mp4", frames=1, rotation=90), size).shape == (1, size[1], size[0], 3)


@pytest.mark.parametrize("curve", [ColorTrc.SMPTE2084, ColorTrc.ARIB_STD_B67])
def test_ten_bits_become_eight_of_the_same_color(tmp_path: Path, curve: ColorTrc) -> None:
    """The video is HDR in BT.2020, as phones record it. Its brightness is not mapped."""
    path = tmp_path / "hdr.mp4"
    colour = (200, 60, 30)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p10le"
        stream.codec_context.colorspace = Colorspace.BT2020
        stream.codec_context.color_trc = curve
        picture = av.VideoFrame.from_ndarray(np.full((64, 64, 3), colour, np.uint8), format="rgb24")
        frame = VideoReformatter().reformat(picture, format="yuv420p10le", dst_colorspace=Colorspace.BT2020)
        frame.pts, frame.time_base = 0, Fraction(1, 10)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    assert covered(path, (32, 48))[0, 10, 10] == pytest.approx(colour, abs=4)


@pytest.mark.parametrize("extension", media_files.CODECS)
def test_the_videos_own_rate_gives_each_frame_once(tmp_path: Path, extension: str) -> None:
    path = media_files.video(tmp_path / f"a{extension}")
    timeline = timeline_of(path)
    assert frame_count_at(timeline, 10) == 40
    for keep in ("first", "last"):
        assert frame_times_at(timeline, 10, 40, keep) == pytest.approx(np.arange(40) / 10, abs=0.002)
    assert greys(covered(path, (32, 32), first_frame_times(timeline, 40))) == pytest.approx(
        [media_files.grey_at(index, 40) for index in range(40)], abs=4
    )


def test_the_first_or_the_last_frames_are_picked(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "a.mp4")
    timeline = timeline_of(path)
    for keep, indices in (("first", range(5)), ("last", range(35, 40))):
        frames = covered(path, (32, 32), frame_times_at(timeline, 10, 5, keep))  # type: ignore[arg-type]
        assert greys(frames) == pytest.approx([media_files.grey_at(index, 40) for index in indices], abs=4)


def test_the_last_frames_of_a_long_video_are_reached_by_a_seek(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "long.mp4", frames=600)  # a minute
    timeline = timeline_of(path)
    decoded: list[int] = []
    times = frame_times_at(timeline, 10, 9, "last")
    frames = np.stack(list(frames_at_size(path, timeline, times, (32, 32), lambda: decoded.append(1))))
    assert greys(frames) == pytest.approx([media_files.grey_at(index, 600) for index in range(591, 600)], abs=4)
    assert len(decoded) < 400


@pytest.mark.parametrize(
    ("fps", "indices"),
    [(5, [0, 2, 4, 6, 8]), (20, [0, 0, 1, 1, 2]), (24, [0, 0, 1, 1, 2]), (30, [0, 0, 1, 1, 1])],
)
def test_at_another_rate_the_nearest_frames_are_picked(tmp_path: Path, fps: float, indices: list[int]) -> None:
    path = media_files.video(tmp_path / "a.mp4")
    frames = covered(path, (32, 32), frame_times_at(timeline_of(path), fps, 5))
    assert greys(frames) == pytest.approx([media_files.grey_at(index, 40) for index in indices], abs=3)


def test_a_variable_rate_is_sampled_by_time(tmp_path: Path) -> None:
    """The video has ten frames in the first second, then one a second."""
    path = media_files.video(tmp_path / "a.mp4", frames=13, pts=lambda index: index if index < 10 else 10 * (index - 8))
    frames = covered(path, (32, 32), frame_times_at(timeline_of(path), 2, 7))
    wanted = [media_files.grey_at(index, 13) for index in (0, 5, 9, 9, 10, 10, 11)]
    assert greys(frames)[:2] == pytest.approx(wanted[:2], abs=3)
    assert greys(frames)[4] == pytest.approx(wanted[4], abs=3)
    assert greys(frames)[6] == pytest.approx(wanted[6], abs=3)


@settings(max_examples=200, deadline=None)
@given(
    gaps=st.lists(st.floats(0.005, 0.5), max_size=60),
    fps=st.floats(1, 60),
    keep=st.sampled_from(["first", "last"]),
    share=st.floats(0, 1),
)
def test_times_are_the_videos_own_and_ascend(gaps: list[float], fps: float, keep: Any, share: float) -> None:
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    timeline = Timeline(times, times[:1], 0.0, float(times[-1]) + 0.04)
    frames = max(1, round(share * frame_count_at(timeline, fps)))
    chosen = frame_times_at(timeline, fps, frames, keep)
    assert len(chosen) == frames
    assert set(chosen) <= set(times.tolist())
    assert chosen == sorted(chosen)
    assert chosen[0 if keep == "first" else -1] == times[0 if keep == "first" else -1]


def test_a_video_that_is_too_short_is_refused(tmp_path: Path) -> None:
    timeline = timeline_of(media_files.video(tmp_path / "a.mp4"))
    with pytest.raises(Failure, match=r"4\.00 s, at 24 frames a second 96 frames; 97 are needed") as refused:
        frame_times_at(timeline, 24, 97)
    assert refused.value.error.code == "InvalidInput"
    assert len(frame_times_at(timeline, 24, 96)) == 96


def test_a_control_video_of_another_length_is_refused(tmp_path: Path) -> None:
    timeline = timeline_of(media_files.video(tmp_path / "a.mp4"))
    with pytest.raises(Failure, match="control video has 40 frames; the video to be made has 41") as refused:
        first_frame_times(timeline, 41)
    assert refused.value.error.code == "InvalidInput"


def test_a_damaged_video_is_refused(tmp_path: Path) -> None:
    path = media_files.mp4_with_damage(tmp_path)
    timeline = timeline_of(path)
    with pytest.raises(Failure, match="cannot be decoded at"):
        list(frames_at_size(path, timeline, first_frame_times(timeline, 40), (32, 32)))


def test_an_extreme_aspect_ratio_is_refused_before_it_takes_memory(tmp_path: Path) -> None:
    path = media_files.video(tmp_path / "a.webm", frames=1, width=600, height=8)
    with pytest.raises(Failure, match="600 x 8"):
        covered(path, (32, 1280))


def test_damaged_files_are_cropped_or_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for whole in (media_files.video(tmp_path / "whole.mp4"), media_files.image(tmp_path / "whole.png", 96, 64)):
        path = tmp_path / f"input{whole.suffix}"
        for _ in range(60):
            data = bytearray(whole.read_bytes())
            for position in random.integers(0, len(data), 8):
                data[position] = random.integers(0, 256)
            path.write_bytes(data)
            try:
                info = probe(path)
                if isinstance(info, VideoInfo):
                    assert covered(path, (32, 48), first_frame_times(info.timeline, 3)).shape == (3, 48, 32, 3)
                else:
                    assert image_at_size(path, (32, 48)).shape == (48, 32, 3)
            except Failure as refused:
                assert refused.error.code == "InvalidInput"
