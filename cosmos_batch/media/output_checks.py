"""Whether what an engine made is what was asked for, before anybody gets it.

Engines round sizes and frames in their own ways, some without a word; one makes a single frame where it misunderstands.
What differs is refused. What only looks wrong, such as a black video, is delivered with a note.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from cosmos_batch.media.containers import decode, open_video
from cosmos_batch.media.errors import as_output_failure, unusable_output
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.probing import ImageInfo, VideoInfo, probe

_RATE_TOLERANCE = 0.0005  # of a rate: half of what lies between 29.97 and 30
_PLAIN = 4  # levels of 255 between the darkest and the brightest
_BLACK = 8
_STILL = 1.0  # levels on average; an encoder alone makes less of a still picture
_SILENT = 0.001
_THINNING = 4  # every fourth pixel of every fourth line


@dataclass(frozen=True)
class WantedVideo:
    """What was asked for: pixels, frames, frames a second, sound."""

    width: int
    height: int
    frames: int
    fps: Fraction
    sound: bool = False


def check_video(path: Path, wanted: WantedVideo) -> list[str]:
    """What a person should know of a video that an engine made, having looked at all of it.

    Raises Failure (EngineFailed) where it is not what was asked for, or no video at all.
    """
    with as_output_failure("video"):
        found = probe(path)
        if not isinstance(found, VideoInfo):
            raise unusable_output("an image; a video was asked for")
        _refuse_video(path, found, wanted)
        return [*_seen(path, wanted.frames), *_heard(path, wanted.sound)]


def check_image(path: Path, width: int, height: int) -> list[str]:
    """What a person should know of an image that an engine made. Raises Failure (EngineFailed) as `check_video`."""
    with as_output_failure("image"):
        found = probe(path)
        if not isinstance(found, ImageInfo):
            raise unusable_output("a video; an image was asked for")
        if (found.width, found.height) != (width, height):
            raise unusable_output(f"an image of {found.width} x {found.height} instead of {width} x {height} pixels")
        with open_image(path) as image:
            colour = _colour(_thinned(np.asarray(decode_upright(image))))
        return [f"The image is {colour}."] if colour else []


def check_actions(actions: np.ndarray | list[list[float]], rows: int, width: int) -> None:
    """Raises Failure (EngineFailed) where there are not so many actions of so many numbers."""
    if np.shape(actions) != (rows, width):
        raise unusable_output(f"actions of shape {list(np.shape(actions))} instead of {[rows, width]}")


def _refuse_video(path: Path, found: VideoInfo, wanted: WantedVideo) -> None:
    frames, fps = len(found.timeline.times), found.timeline.fps
    wrong = []
    if frames != wanted.frames:
        wrong.append(f"{frames} instead of {wanted.frames} frames")
    if (found.width, found.height) != (wanted.width, wanted.height):
        wrong.append(f"{found.width} x {found.height} instead of {wanted.width} x {wanted.height} pixels")
    if abs(fps - wanted.fps) > _RATE_TOLERANCE * wanted.fps:
        wrong.append(f"{fps:.6g} instead of {float(wanted.fps):.6g} frames a second")
    if wanted.sound and not _has_sound(path):
        wrong.append("no sound")
    if wrong:
        raise unusable_output(f"a video that is not what was asked for: {'; '.join(wrong)}")


def _has_sound(path: Path) -> bool:
    with open_video(path) as (container, _):
        return bool(container.streams.audio)


def _seen(path: Path, frames: int) -> list[str]:
    with open_video(path) as (container, stream):
        pictures = (_thinned(frame.to_ndarray(format="rgb24")) for frame in decode(container, stream, lambda: None))
        first = next(pictures, None)
        if first is None:
            raise unusable_output("a video of which no frame can be decoded")
        looks = [(_spread(first), 0.0), *((_spread(one), _change(first, one)) for one in pictures)]
    if len(looks) != frames:
        raise unusable_output(f"a video of which only {len(looks)} of {frames} frames can be decoded")
    if frames > 1 and max(change for _, change in looks) < _STILL:
        return [f"All {frames} frames of the video are alike: {_colour(first) or 'nothing moves'}."]
    return ["All frames of the video are of one colour each."] if max(spread for spread, _ in looks) <= _PLAIN else []


def _change(first: np.ndarray, other: np.ndarray) -> float:
    if first.shape != other.shape:
        raise unusable_output("a video whose frames change their size")
    return float(np.abs(other - first).mean())


def _thinned(pixels: np.ndarray) -> np.ndarray:
    """Enough of a picture to see what it is."""
    return pixels[::_THINNING, ::_THINNING].astype(np.int16)


def _spread(pixels: np.ndarray) -> int:
    return int(np.ptp(pixels, axis=(0, 1)).max())


def _colour(pixels: np.ndarray) -> str | None:
    """The colour of a plain picture, in words; None where there is more to see."""
    if _spread(pixels) > _PLAIN:
        return None
    red, green, blue = (round(float(level)) for level in pixels.mean(axis=(0, 1)))
    return "black" if max(red, green, blue) < _BLACK else f"of one colour, RGB {red} {green} {blue}"


def _heard(path: Path, wanted: bool) -> list[str]:
    if not wanted:
        return []
    with open_video(path) as (container, _):
        try:
            loudest = max((float(np.abs(frame.to_ndarray()).max()) for frame in container.decode(audio=0)), default=0.0)
        except av.FFmpegError as error:
            raise unusable_output(f"sound that cannot be decoded ({error.strerror})") from error
    return ["The sound is silent."] if loudest < _SILENT else []
