"""What a generator made, as files that any player and browser shows.

A video is written while its frames come, so that no more than a few are in memory. The same frames make the same file,
byte for byte, however busy the machine is: the encoder's threads are fixed, since it decides differently with more of
them, and x264's macroblock tree is off.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.container import OutputContainer
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc, Interpolation, VideoReformatter
from PIL import Image

from cosmos_batch.media.errors import unusable_output
from cosmos_batch.media.sound import RATE, Sound, piece, stereo

_THREADS = 8
# Nothing that a person sees is lost: x264's documentation calls 17 or 18 visually lossless.
# With its macroblock tree x264 165 is not repeatable: beside twice as many busy processes as cores, one in ten files of
# five frames of 320x240 differed, and half of those of 30 frames; without it none of 250, with any kind of threads.
_QUALITY = {"crf": "17", "preset": "medium", "mbtree": "0"}
_LOSSLESS = {"qp": "0", "preset": "veryfast"}
# The same pixels on every processor: libswscale's fast paths round as they like.
_CONVERSION = (
    Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INP
)
# Durations are exact in ticks that divide a frame of every broadcast rate and a sample of sound.
_CONTAINER = {"movflags": "+faststart", "movie_timescale": "240000"}
_SOUND_BITS = 192_000  # a second
_JPEG: dict[str, Any] = {"quality": 95, "subsampling": 0}
_CHANNELS = 3
_NTSC = Fraction(1000, 1001)
_DECIMALS = (2, 3)  # with how many a broadcast rate is written: 23.98, 23.976
_LARGEST_DENOMINATOR = 1001


def exact_rate(fps: float) -> Fraction:
    """The rate that a person means by a number of frames a second."""
    broadcast = math.ceil(fps) * _NTSC
    if fps % 1 and any(round(float(broadcast), decimals) == fps for decimals in _DECIMALS):
        return broadcast
    return max(Fraction(fps).limit_denominator(_LARGEST_DENOMINATOR), Fraction(1, _LARGEST_DENOMINATOR))


def write_video(
    path: Path,
    frames: Iterable[np.ndarray],
    fps: Fraction,
    sound: Sound | None = None,
    check: Callable[[], None] = lambda: None,
    *,
    lossless: bool = False,
) -> int:
    """Write an MP4 (H.264 in yuv420p, index in front, AAC) and return how many frames it has.

    Parameters
    ----------
    frames
        RGB, uint8, each of shape [H, W, 3] with even H and W.
    fps
        Frames a second, exactly (see `exact_rate`).
    sound
        Cut to the video's length, or filled with silence up to it.
    check
        Called after each frame. What it raises ends the writing.
    lossless
        For an engine to read, not for a person: larger, and in a profile of H.264 that browsers do not play.

    Raises
    ------
    Failure
        EngineFailed where there are no frames, or these are no frames of one video.
    """
    try:
        with av.open(str(path), "w", format="mp4", options=_CONTAINER) as container:
            picture = _picture_stream(container, fps, _LOSSLESS if lossless else _QUALITY)
            return _write(container, picture, frames, stereo(sound) if sound else None, check)
    except BaseException:
        path.unlink(missing_ok=True)  # half a video looks like a whole one
        raise


def _write(
    container: OutputContainer,
    picture: Any,
    frames: Iterable[np.ndarray],
    sound: np.ndarray | None,
    check: Callable[[], None],
) -> int:
    fps = picture.codec_context.framerate
    audio = container.add_stream("aac", RATE, layout="stereo", bit_rate=_SOUND_BITS) if sound is not None else None
    reformatter = VideoReformatter()
    count = 0
    for pixels in frames:
        _check_frame(pixels, picture, count)
        frame = _yuv(pixels, reformatter)
        frame.pts, frame.time_base = count, 1 / fps
        container.mux(picture.encode(frame))
        if audio is not None and sound is not None:
            container.mux(audio.encode(piece(sound, _sample(count, fps), _sample(count + 1, fps))))
        count += 1
        check()
    if not count:
        raise unusable_output("a video without frames")
    for stream in (picture, audio):
        if stream is not None:
            container.mux(stream.encode())
    return count


def write_image(path: Path, pixels: np.ndarray) -> None:
    """Write a PNG or, by the path's suffix, a JPEG. `pixels` are RGB, uint8, of shape [H, W, 3].

    Raises Failure (EngineFailed) where they are no picture.
    """
    _check_picture(pixels)
    Image.fromarray(pixels).save(path, **({} if path.suffix == ".png" else _JPEG))


def _picture_stream(container: OutputContainer, fps: Fraction, quality: dict[str, str]) -> Any:
    stream: Any = container.add_stream("libx264", rate=fps, options=quality)
    stream.pix_fmt = "yuv420p"
    stream.codec_context.thread_count = _THREADS
    # Untagged, each player would guess its own colours.
    stream.codec_context.colorspace = Colorspace.ITU709
    stream.codec_context.color_range = ColorRange.MPEG
    stream.codec_context.color_primaries = ColorPrimaries.BT709
    stream.codec_context.color_trc = ColorTrc.BT709
    return stream


def _check_frame(pixels: np.ndarray, stream: Any, index: int) -> None:
    """The first frame says how large the others are."""
    _check_picture(pixels)
    height, width, _ = pixels.shape
    if index == 0:
        if width % 2 or height % 2:
            raise unusable_output(f"frames of {width} x {height} pixels; H.264 needs even sides")
        stream.width, stream.height = width, height
    elif (width, height) != (stream.width, stream.height):
        raise unusable_output(
            f"a video whose frame {index} is {width} x {height} pixels where the first is "
            f"{stream.width} x {stream.height}"
        )


def _check_picture(pixels: np.ndarray) -> None:
    if pixels.dtype != np.uint8 or pixels.ndim != _CHANNELS or pixels.shape[2] != _CHANNELS or not pixels.size:
        raise unusable_output(f"a picture of {pixels.dtype} in shape {list(pixels.shape)}; RGB of uint8 was expected")


def _yuv(pixels: np.ndarray, reformatter: VideoReformatter) -> av.VideoFrame:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return reformatter.reformat(
        frame,
        format="yuv420p",
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
        interpolation=_CONVERSION,
    )


def _sample(frame: int, fps: Fraction) -> int:
    """The first sample that is heard while a frame is shown."""
    return round(frame * RATE / fps)
