"""Frames are scaled to the right colors, in fewer steps where that is as exact."""

import av
import numpy as np
import pytest
from av.video.reformatter import Interpolation
from PIL import Image

from cosmos_batch.media.frame_scaling import FrameScaler


def natural(layout: str, width: int = 320, height: int = 180) -> av.VideoFrame:
    """Return a frame of smooth colors with edges."""
    coarse = Image.fromarray(np.random.default_rng(1).integers(0, 256, (9, 16, 3), np.uint8))
    pixels = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
    return av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=layout)


def in_one_step(frame: av.VideoFrame, width: int, height: int) -> np.ndarray:
    return frame.reformat(width, height, "rgb24", interpolation=Interpolation.BICUBIC).to_ndarray().astype(float)


def exact(frame: av.VideoFrame, width: int, height: int) -> np.ndarray:
    """Return a frame of `yuv420p` as RGB and scaled, computed in floating-point numbers (BT.601, limited range)."""
    planes = [
        Image.fromarray(
            np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, -1)[:, : plane.width].astype("f4")
        ).resize((frame.width, frame.height), Image.Resampling.BILINEAR)
        for plane in frame.planes
    ]
    light, blue, red = (np.asarray(plane, float) for plane in planes)
    light, blue, red = (light - 16) * 255 / 219, (blue - 128) * 255 / 224, (red - 128) * 255 / 224
    colors = (light + 1.402 * red, light - 0.344136 * blue - 0.714136 * red, light + 1.772 * blue)
    scaled = [
        np.asarray(Image.fromarray(one.astype("f4")).resize((width, height), Image.Resampling.BICUBIC))
        for one in colors
    ]
    return np.clip(np.stack(scaled, -1), 0, 255)


@pytest.mark.parametrize(("width", "height"), [(160, 96), (224, 96), (640, 352)])
def test_scaled_frames_are_as_exact_as_those_of_one_step(width: int, height: int) -> None:
    frame = natural("yuv420p")
    right = exact(frame, width, height)
    scaled = FrameScaler(width, height).pixels(frame)
    errors = [np.abs(pixels - right).mean() for pixels in (scaled, in_one_step(frame, width, height))]
    assert errors[0] <= errors[1] < 4  # of 255


@pytest.mark.parametrize("color_range", [1, 2])  # limited and full
@pytest.mark.parametrize("colorspace", [1, 5, 9])  # BT.709, BT.601, BT.2020
def test_scaling_keeps_what_a_frame_says_of_its_colors(color_range: int, colorspace: int) -> None:
    frame = natural("yuv420p")
    frame.color_range, frame.colorspace = color_range, colorspace
    scaled = FrameScaler(160, 96).pixels(frame)
    assert np.abs(scaled - in_one_step(frame, 160, 96)).max() <= 8


@pytest.mark.parametrize("layout", ["yuv420p10le", "yuvj420p", "yuv444p", "rgb24", "gray"])
@pytest.mark.parametrize("size", [(160, 96), (320, 180)])
def test_frames_of_other_layouts_are_scaled_in_one_step(layout: str, size: tuple[int, int]) -> None:
    frame = natural(layout)
    assert np.array_equal(FrameScaler(*size).pixels(frame), in_one_step(frame, *size))


def test_a_frame_of_its_own_size_is_changed_in_one_step() -> None:
    frame = natural("yuv420p")
    assert np.array_equal(FrameScaler(320, 180).pixels(frame), in_one_step(frame, 320, 180))
