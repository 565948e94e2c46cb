"""Frames are scaled to the right colors, in fewer steps where that is as exact."""

import av
import numpy as np
import pytest
from PIL import Image

from benchmarks.reasoner.scaling import exact, in_one_step
from cosmos_batch.media.frame_scaling import FrameScaler


def natural(layout: str, width: int = 320, height: int = 180) -> av.VideoFrame:
    """Return a frame of smooth colors with edges."""
    coarse = Image.fromarray(np.random.default_rng(1).integers(40, 216, (9, 16, 3), np.uint8))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    return av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=layout)


@pytest.mark.parametrize(("width", "height"), [(32, 32), (160, 96), (224, 96), (320, 96), (640, 352)])
def test_scaled_frames_are_nearer_to_the_right_colors_than_those_of_one_step(width: int, height: int) -> None:
    frame = natural("yuv420p")
    right = exact(frame, width, height)
    scaled = FrameScaler(width, height).pixels(frame)
    errors = [np.abs(pixels - right).mean() for pixels in (scaled, in_one_step(width, height)(frame))]
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 3 and np.abs((scaled - right).mean((0, 1))).max() < 0.5  # of 255


def test_scaling_keeps_what_a_frame_says_of_its_colors() -> None:
    """Each of FFmpeg's color ranges (limited, full) and matrices (BT.709, BT.601, BT.2020) gives other colors."""
    kinds = [(color_range, colorspace) for color_range in (1, 2) for colorspace in (1, 5, 9)]
    scaled, expected = [], []
    for color_range, colorspace in kinds:
        frame = natural("yuv420p")
        frame.color_range, frame.colorspace = color_range, colorspace
        scaled.append(FrameScaler(160, 96).pixels(frame).astype(float))
        expected.append(in_one_step(160, 96)(frame).astype(float))
    for own, pixels in enumerate(scaled):
        errors = [np.abs(pixels - other).mean() for other in expected]
        assert errors.index(min(errors)) == own


@pytest.mark.parametrize("layout", ["yuv420p10le", "yuvj420p", "yuv444p", "rgb24", "gray"])
@pytest.mark.parametrize("size", [(160, 96), (320, 180)])
def test_frames_of_other_layouts_are_scaled_in_one_step(layout: str, size: tuple[int, int]) -> None:
    frame = natural(layout)
    assert np.array_equal(FrameScaler(*size).pixels(frame), in_one_step(*size)(frame))


def test_a_frame_of_its_own_size_is_changed_in_one_step() -> None:
    frame = natural("yuv420p")
    assert np.array_equal(FrameScaler(320, 180).pixels(frame), in_one_step(320, 180)(frame))
