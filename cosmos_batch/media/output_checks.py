"""Checks generated files against the request before they are delivered.

Engines round sizes and frame counts, some without saying so; one makes a single frame of a request that it does not
understand. A file that differs from the request is refused. One that only looks wrong, such as a black video, is
delivered with a note.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from cosmos_batch.contract.counting import counted
from cosmos_batch.media.decoding import decode, open_video
from cosmos_batch.media.errors import as_output_failure, unusable_output
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe

_RATE_TOLERANCE = 0.0005  # relative; half the difference between 29.97 and 30 frames a second
_PLAIN = 4  # a picture with a smaller range of levels (of 255) has one color
_BLACK = 8  # a color with all levels (of 255) below this is black
_STILL = 1.0  # mean difference in levels between frames; encoding a still picture makes less
_SILENT = 0.001  # a sound whose largest sample is below this is silent
_STRIDE = 4  # every fourth pixel of every fourth line is looked at


@dataclass(frozen=True)
class WantedVideo:
    """The video that was requested: its size in pixels, its frames, frames a second, and whether it has sound."""

    width: int
    height: int
    frames: int
    fps: Fraction
    sound: bool = False


def check_video(path: Path, wanted: WantedVideo) -> list[str]:
    """Decode a generated video and return notes on it, such as that it is black.

    Raises Failure (EngineFailed) where it is not the wanted video, or no video at all.
    """
    with as_output_failure("video"):
        info = probe(path)
        if not isinstance(info, VideoInfo):
            raise unusable_output("an image; a video was asked for")
        _refuse_video(path, info, wanted)
        return [*_picture_notes(path, wanted.frames), *_sound_notes(path, wanted.sound)]


def check_image(path: Path, width: int, height: int) -> list[str]:
    """Decode a generated image and return notes on it. Raises Failure (EngineFailed) where it is not the wanted one."""
    with as_output_failure("image"):
        info = probe(path)
        if not isinstance(info, ImageInfo):
            raise unusable_output("a video instead of an image")
        if (info.width, info.height) != (width, height):
            raise unusable_output(f"an image of {info.width} x {info.height} instead of {width} x {height} pixels")
        with open_image(path) as image:
            colour = _color(_pixels_looked_at(np.asarray(decode_upright(image))))
        return [f"The image is {colour}."] if colour else []


def check_actions(actions: np.ndarray | list[list[float]], rows: int, width: int) -> None:
    """Raise Failure (EngineFailed) unless there are `rows` actions of `width` numbers each."""
    if np.shape(actions) != (rows, width):
        raise unusable_output(f"actions of shape {list(np.shape(actions))} instead of {[rows, width]}")


def _refuse_video(path: Path, info: VideoInfo, wanted: WantedVideo) -> None:
    frames, fps = len(info.timeline.times), info.timeline.fps
    differences = []
    if frames != wanted.frames:
        differences.append(f"{frames} instead of {counted(wanted.frames, 'frame')}")
    if (info.width, info.height) != (wanted.width, wanted.height):
        differences.append(f"{info.width} x {info.height} instead of {wanted.width} x {wanted.height} pixels")
    if abs(fps - wanted.fps) > _RATE_TOLERANCE * wanted.fps:
        differences.append(f"{fps:.6g} instead of {float(wanted.fps):.6g} frames a second")
    if wanted.sound and not _has_sound(path):
        differences.append("no sound")
    if differences:
        raise unusable_output(f"another video than was requested: {'; '.join(differences)}")


def _has_sound(path: Path) -> bool:
    with open_video(path) as (container, _):
        return bool(container.streams.audio)


def _picture_notes(path: Path, frames: int) -> list[str]:
    with open_video(path) as (container, stream):
        pictures = (
            _pixels_looked_at(frame.to_ndarray(format="rgb24")) for frame in decode(container, stream, lambda: None)
        )
        first = next(pictures, None)
        if first is None:
            raise unusable_output("a video of which no frame can be decoded")
        ranges = [(_range(first), 0.0), *((_range(picture), _change(first, picture)) for picture in pictures)]
    if len(ranges) != frames:
        raise unusable_output(f"a video of which only {len(ranges)} of {frames} frames can be decoded")
    if frames > 1 and max(change for _, change in ranges) < _STILL:
        return [f"All {frames} frames of the video are alike: {_color(first) or 'nothing moves'}."]
    return ["All frames of the video are of one colour each."] if max(levels for levels, _ in ranges) <= _PLAIN else []


def _change(first: np.ndarray, other: np.ndarray) -> float:
    if first.shape != other.shape:
        raise unusable_output("a video whose frames change their size")
    return float(np.abs(other - first).mean())


def _pixels_looked_at(pixels: np.ndarray) -> np.ndarray:
    """Return every fourth pixel of every fourth line, as signed numbers."""
    return pixels[::_STRIDE, ::_STRIDE].astype(np.int16)


def _range(pixels: np.ndarray) -> int:
    return int(np.ptp(pixels, axis=(0, 1)).max())


def _color(pixels: np.ndarray) -> str | None:
    """Return the color of a picture of one color, in words; None for any other picture."""
    if _range(pixels) > _PLAIN:
        return None
    red, green, blue = (round(float(level)) for level in pixels.mean(axis=(0, 1)))
    return "black" if max(red, green, blue) < _BLACK else f"of one colour, RGB {red} {green} {blue}"


def _sound_notes(path: Path, wanted: bool) -> list[str]:
    if not wanted:
        return []
    with open_video(path) as (container, _):
        try:
            loudest = max((float(np.abs(frame.to_ndarray()).max()) for frame in container.decode(audio=0)), default=0.0)
        except av.FFmpegError as error:
            raise unusable_output(f"sound that cannot be decoded ({error.strerror})") from error
    return ["The sound is silent."] if loudest < _SILENT else []
