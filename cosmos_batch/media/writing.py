"""Writes generated frames and sound as files that every player and browser can show.

A video is written frame by frame, so only a few frames are in memory. The same frames give the same file, byte for
byte, however busy the machine is: the number of encoder threads is fixed, because the encoder's decisions depend on it,
and x264's macroblock tree is off.
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
# FFmpeg's guide to H.264 calls a CRF of 17 or 18 visually lossless, or nearly so. At 15, x264's preset `veryfast` is
# nearer to the frames of a drawn clip than `medium` at 17, in a file that is a third larger and takes less than half of
# the CPU time (`benchmarks/generator/encoding.py`): whoever waits for a short video waits for x264.
# With its macroblock tree, x264 165 is not repeatable: beside twice as many busy processes as cores, one in ten files
# of five frames of 320x240 differed, and half of those of 30 frames. Without it none of 250 did with `medium`, with any
# number of threads, and none of 450 with `veryfast`.
QUALITY = {"crf": "15", "preset": "veryfast", "mbtree": "0"}
_LOSSLESS = {"qp": "0", "preset": "veryfast"}
# These flags give the same pixels on every processor; libswscale's fast paths round differently on each.
_CONVERSION = (
    Interpolation.BILINEAR | Interpolation.ACCURATE_RND | Interpolation.BITEXACT | Interpolation.FULL_CHR_H_INP
)
# At 240,000 ticks a second, a frame of every broadcast rate and a sample of sound each last a whole number of ticks.
_CONTAINER = {"movflags": "+faststart", "movie_timescale": "240000"}
_SOUND_BITS = 192_000  # a second
_JPEG: dict[str, Any] = {"quality": 95, "subsampling": 0}
_CHANNELS = 3
_NTSC = Fraction(1000, 1001)
_DECIMALS = (2, 3)  # decimals with which people write broadcast rates: 23.98, 23.976
_LARGEST_DENOMINATOR = 1001


def exact_rate(fps: float) -> Fraction:
    """Return the exact frame rate for a rounded one: 29.97 stands for 30000/1001 frames a second."""
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
    """Write an MP4 (H.264 in yuv420p, AAC, index in front) and return the number of its frames.

    Parameters
    ----------
    frames
        RGB, uint8, each of shape [H, W, 3] with even H and W.
    fps
        Exact frame rate (see `exact_rate`).
    sound
        Sound, which is cut to the video's length or filled with silence up to it.
    check
        Called after each frame. What it raises ends the writing.
    lossless
        For an engine's input: the file is larger, and in a profile of H.264 that browsers do not play.

    Raises
    ------
    Failure
        EngineFailed where there are no frames, or where they differ in size or are not of this form.
    """
    try:
        with av.open(str(path), "w", format="mp4", options=_CONTAINER) as container:
            picture = _picture_stream(container, fps, _LOSSLESS if lossless else QUALITY)
            return _write(container, picture, frames, stereo(sound) if sound else None, check)
    except BaseException:
        path.unlink(missing_ok=True)  # an incomplete file must not be taken for a video
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
        frame = yuv(pixels, reformatter)
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

    Raises Failure (EngineFailed) where they have another form.
    """
    _check_picture(pixels)
    Image.fromarray(pixels).save(path, **({} if path.suffix == ".png" else _JPEG))


def _picture_stream(container: OutputContainer, fps: Fraction, quality: dict[str, str]) -> Any:
    stream: Any = container.add_stream("libx264", rate=fps, options=quality)
    stream.pix_fmt = "yuv420p"
    stream.codec_context.thread_count = _THREADS
    # Without these tags each player would guess the color space.
    stream.codec_context.colorspace = Colorspace.ITU709
    stream.codec_context.color_range = ColorRange.MPEG
    stream.codec_context.color_primaries = ColorPrimaries.BT709
    stream.codec_context.color_trc = ColorTrc.BT709
    return stream


def _check_frame(pixels: np.ndarray, stream: Any, index: int) -> None:
    """Raise Failure unless the frame has the size of the first one, which sets the size of the stream."""
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


def yuv(pixels: np.ndarray, reformatter: VideoReformatter) -> av.VideoFrame:
    """Return the frame as the encoder gets it: yuv420p, BT.709, limited range."""
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    return reformatter.reformat(
        frame,
        format="yuv420p",
        dst_colorspace=Colorspace.ITU709,
        dst_color_range=ColorRange.MPEG,
        interpolation=_CONVERSION,
    )


def _sample(frame: int, fps: Fraction) -> int:
    """Return the number of the first sound sample that belongs to a frame."""
    return round(frame * RATE / fps)
