"""Inputs of a generator at exactly its size, length and rate: engines that do this themselves do it differently.

A picture covers the size that is asked for and is cropped to its centre, as Cosmos Framework does
(`cosmos_framework/inference/vision.py`, `_resize_and_center_crop`). One of Diffusers' engines would stretch it.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter
from PIL import Image, ImageOps

from cosmos_batch.media.containers import open_video
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.frame_sampling import decode_at_times
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.timeline import Timeline

Size = tuple[int, int]  # width and height in pixels

_LEAST_SHARE = 1 / 16  # of a picture that must be left of it
_HALF_TURN = 2  # quarter turns
_QUARTER_TURN = 90  # degrees
_CLOCK_ROUNDING = 1e-4  # frames
# The same pixels on every processor: libswscale's fast paths round as they like.
_SCALING = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT


def image_at_size(path: Path, size: Size) -> np.ndarray:
    """A probed image at exactly this size: RGB, uint8, [H, W, 3], upright, transparency as white.

    Raises Failure (InvalidInput) where it is damaged, or of so different a shape that little would be left of it.
    """
    with open_image(path) as image:
        upright = decode_upright(image)
    _check_share(upright.size, size)
    return np.asarray(ImageOps.fit(upright, size, Image.Resampling.BICUBIC))


def frames_at_size(
    path: Path, timeline: Timeline, times: list[float], size: Size, check: Callable[[], None] = lambda: None
) -> Iterator[np.ndarray]:
    """Frames of a probed video at exactly this size, one after the other: RGB, uint8, [H, W, 3], upright.

    Parameters
    ----------
    path, timeline
        A file that `probe` accepted, and what it found.
    times
        When the frames are shown, in seconds from the first, ascending (see `frame_times_at`, `first_frame_times`). A
        time that is listed twice yields its frame twice.
    check
        Called after each decoded frame. What it raises ends the decoding.

    Raises
    ------
    Failure
        InvalidInput where the video cannot be decoded there, or where little would be left of its pictures.
    """
    often = Counter(times)
    with open_video(path) as (container, stream):
        frames = decode_at_times(container, stream, timeline, list(often), check, leaping=False)
        for pixels, count in zip(_cover(frames, size), often.values(), strict=True):
            for _ in range(count):
                yield pixels


def frame_count_at(timeline: Timeline, fps: float) -> int:
    """How many frames a video has at a rate; one at least."""
    return max(1, math.floor(timeline.duration * fps + _CLOCK_ROUNDING))


def frame_times_at(
    timeline: Timeline, fps: float, frames: int, keep: Literal["first", "last"] = "first"
) -> list[float]:
    """The times of the frames to show at a rate, for so many from the beginning or up to the end of a video.

    Each is the frame nearest to its time: one that is not there is not made up.
    Raises Failure (InvalidInput) where the video is too short.
    """
    there = frame_count_at(timeline, fps)
    if frames > there:
        raise unusable_file(
            f"The video has {timeline.duration:.2f} s, at {fps:g} frames a second {there} frames; {frames} are needed.",
            "Upload a longer one, or ask for fewer frames.",
        )
    wanted = np.arange(frames) / fps
    if keep == "last":
        wanted += timeline.times[-1] - wanted[-1]
    between = (timeline.times[1:] + timeline.times[:-1]) / 2
    return [float(seconds) for seconds in timeline.times[np.searchsorted(between, wanted - _CLOCK_ROUNDING / fps)]]


def first_frame_times(timeline: Timeline, frames: int) -> list[float]:
    """The times of the first frames as they are stored, for a video whose frames stand for those to be made.

    Raises Failure (InvalidInput) where there are fewer.
    """
    there = len(timeline.times)
    if frames > there:
        raise unusable_file(
            f"The control video has {there} frames; the video to be made has {frames}, and each needs its own.",
            f"Make the control video as long as the result, or ask for {there} frames.",
        )
    return [float(seconds) for seconds in timeline.times[:frames]]


def _cover(frames: Iterator[av.VideoFrame], size: Size) -> Iterator[np.ndarray]:
    """Size and turn are decided once, as in `frames`."""
    scaler = VideoReformatter()
    shape: tuple[int, int, int] | None = None
    for frame in frames:
        shape = shape or _scaled(frame, size)
        width, height, turns = shape
        scaled = scaler.reformat(frame, width, height, "rgb24", interpolation=_SCALING)
        yield _centre(np.rot90(scaled.to_ndarray(), turns), size)


def _scaled(frame: av.VideoFrame, size: Size) -> tuple[int, int, int]:
    """Width and height at which a stored frame covers `size` when it is turned, and its quarter turns."""
    turns = frame.rotation // _QUARTER_TURN
    width, height = size if turns % _HALF_TURN == 0 else size[::-1]
    _check_share((frame.width, frame.height), (width, height))
    scale = max(width / frame.width, height / frame.height)
    return max(width, round(frame.width * scale)), max(height, round(frame.height * scale)), turns


def _centre(pixels: np.ndarray, size: Size) -> np.ndarray:
    width, height = size
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])


def _check_share(found: Size, size: Size) -> None:
    shape, wanted = found[0] / found[1], size[0] / size[1]
    if min(shape / wanted, wanted / shape) < _LEAST_SHARE:
        raise unusable_file(
            f"The picture is {found[0]} x {found[1]}: cropped to the shape of {size[0]} x {size[1]}, "
            f"less than a {round(1 / _LEAST_SHARE)}th of it would be left.",
            "Crop it to what should be seen, or ask for a size of its shape.",
        )
