"""Scales and crops the inputs of a generator to exactly its size, and picks frames at its length and rate.

A picture is scaled until it covers the requested size, and cropped to its center, as Cosmos Framework does
(`cosmos_framework/inference/vision.py`, `_resize_and_center_crop`). It is done here for all engines, because each would
do it differently: Diffusers, for one, would stretch the picture.
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

from cosmos_batch.contract.counting import counted
from cosmos_batch.media.decoding import open_video
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.frame_sampling import Shortcuts, decode_at_times
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.rotation import quarter_turns
from cosmos_batch.media.timeline import Timeline

_LEAST_SHARE = 1 / 16  # the share of a picture that must be left after cropping
_CLOCK_ROUNDING = 1e-4  # frames
# These flags give the same pixels on every processor; libswscale's fast paths round differently on each.
_SCALING = Interpolation.BICUBIC | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INT


def image_at_size(path: Path, size: tuple[int, int]) -> np.ndarray:
    """Return a probed image at exactly this size: RGB, uint8, [H, W, 3], upright, with white for transparency.

    Raises Failure (InvalidInput) where it is damaged, or where less than a 16th of it would be left after cropping.
    """
    with open_image(path) as image:
        upright = decode_upright(image)
    _check_share(upright.size, size)
    return np.asarray(ImageOps.fit(upright, size, Image.Resampling.BICUBIC))


def frames_at_size(
    path: Path, timeline: Timeline, times: list[float], size: tuple[int, int], check: Callable[[], None] = lambda: None
) -> Iterator[np.ndarray]:
    """Yield frames of a probed video at exactly this size: RGB, uint8, [H, W, 3], upright.

    Parameters
    ----------
    path, timeline
        A file that `probe` accepted, and its timeline.
    times
        Presentation times of the frames in seconds from the first, ascending (see `frame_times_at`,
        `first_frame_times`). A time that is listed twice yields its frame twice.
    check
        Called after each decoded packet. What it raises ends the decoding.

    Raises
    ------
    Failure
        InvalidInput where the video cannot be decoded at one of the times, or where less than a 16th of its pictures
        would be left after cropping.
    """
    repetitions = Counter(times)
    with open_video(path) as (container, stream):
        frames = decode_at_times(container, stream, timeline, list(repetitions), check, Shortcuts())
        for pixels, count in zip(_cover(frames, size), repetitions.values(), strict=True):
            for _ in range(count):
                yield pixels


def frame_count_at(timeline: Timeline, fps: float) -> int:
    """Return how many frames a video has if it is resampled at `fps`; at least 1."""
    return max(1, math.floor(timeline.duration * fps + _CLOCK_ROUNDING))


def frame_times_at(
    timeline: Timeline, fps: float, frames: int, keep: Literal["first", "last"] = "first"
) -> list[float]:
    """Return the presentation times of the first or the last `frames` frames of a video that is resampled at `fps`.

    For each point in time that is the nearest frame of the video; frames are repeated and not interpolated.
    Raises Failure (InvalidInput) where the video is too short.
    """
    available = frame_count_at(timeline, fps)
    if frames > available:
        raise unusable_file(
            f"The video has {timeline.duration:.2f} s, at {fps:g} frames a second {counted(available, 'frame')}; "
            f"{frames} are needed.",
            "Upload a longer one, or ask for fewer frames.",
        )
    wanted = np.arange(frames) / fps
    if keep == "last":
        wanted += timeline.times[-1] - wanted[-1]
    between = (timeline.times[1:] + timeline.times[:-1]) / 2
    return [float(seconds) for seconds in timeline.times[np.searchsorted(between, wanted - _CLOCK_ROUNDING / fps)]]


def first_frame_times(timeline: Timeline, frames: int) -> list[float]:
    """Return the presentation times of a control video's first `frames` frames, at whatever rate they are stored.

    Each of them controls one frame of the output. Raises Failure (InvalidInput) where the video has fewer.
    """
    available = len(timeline.times)
    if frames > available:
        raise unusable_file(
            f"The control video has {counted(available, 'frame')}; the video to be made has {frames}, and each needs "
            "its own.",
            f"Make the control video as long as the result, or ask for {counted(available, 'frame')}.",
        )
    return [float(seconds) for seconds in timeline.times[:frames]]


def _cover(frames: Iterator[av.VideoFrame], size: tuple[int, int]) -> Iterator[np.ndarray]:
    """Scale and crop all frames alike: as the size and rotation of the first one require."""
    scaler = VideoReformatter()
    shape: tuple[int, int, int] | None = None
    for frame in frames:
        shape = shape or _scaled(frame, size)
        width, height, turns = shape
        scaled = scaler.reformat(frame, width, height, "rgb24", interpolation=_SCALING)
        yield _crop_to_center(np.rot90(scaled.to_ndarray(), turns), size)


def _scaled(frame: av.VideoFrame, size: tuple[int, int]) -> tuple[int, int, int]:
    """Return the width and height at which a stored frame covers `size` once it is upright, and its quarter turns."""
    turns = quarter_turns(frame)
    width, height = size if turns % 2 == 0 else size[::-1]
    _check_share((frame.width, frame.height), (width, height))
    scale = max(width / frame.width, height / frame.height)
    return max(width, round(frame.width * scale)), max(height, round(frame.height * scale)), turns


def _crop_to_center(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    width, height = size
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])


def _check_share(source: tuple[int, int], size: tuple[int, int]) -> None:
    shape, wanted = source[0] / source[1], size[0] / size[1]
    if min(shape / wanted, wanted / shape) < _LEAST_SHARE:
        raise unusable_file(
            f"The picture is {source[0]} x {source[1]}: cropped to the shape of {size[0]} x {size[1]}, "
            f"less than a {round(1 / _LEAST_SHARE)}th of it would be left.",
            "Crop it to what should be seen, or ask for a size of its shape.",
        )
