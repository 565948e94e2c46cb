"""Turns an animated WebP into a video that FFmpeg can read: FFmpeg itself has no demuxer for it."""

from fractions import Fraction
from io import BytesIO
from typing import Any

import av
import numpy as np
from PIL import Image, UnidentifiedImageError

from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.images import refuse_large_file
from cosmos_batch.media.signatures import Source

# Pixels of all pictures together: a thousand pictures of 1920 x 1080. It bounds the time that a hostile file can cost.
PIXEL_LIMIT = 2**31
_MILLISECOND = Fraction(1, 1000)
_SHORTEST = 1  # milliseconds that a picture is shown; many files state 0


def as_matroska(source: Source) -> BytesIO:
    """Return an animated WebP as a Matroska file in memory, lossless and with the times of its pictures.

    Transparency becomes white, as in still images. Raises Failure (InvalidInput) where it is damaged or too large.
    """
    refuse_large_file(source)
    file = BytesIO()
    try:
        with Image.open(source, formats=["WEBP"]) as animation, av.open(file, "w", format="matroska") as video:
            _check_size(animation)
            _write_pictures(animation, video)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise unusable_file(f"The animation is truncated or damaged: {error}.") from error
    file.seek(0)
    return file


def _check_size(animation: Image.Image) -> None:
    pixels = animation.width * animation.height * _count(animation)
    if pixels > PIXEL_LIMIT:
        raise unusable_file(
            f"The animation has {_count(animation)} pictures of {animation.width:,} x {animation.height:,} pixels; "
            f"allowed are {PIXEL_LIMIT:,} pixels in all.",
            "Convert it to an MP4, or cut it into shorter ones.",
        )


def _count(animation: Image.Image) -> int:
    return int(getattr(animation, "n_frames", 1))


def _write_pictures(animation: Image.Image, video: Any) -> None:
    stream = video.add_stream("ffv1", rate=Fraction(1000), options={"slices": "4"})
    stream.width, stream.height, stream.pix_fmt = *animation.size, "bgr0"
    stream.time_base = stream.codec_context.time_base = _MILLISECOND
    milliseconds = 0
    for number in range(_count(animation)):
        animation.seek(number)
        frame = av.VideoFrame.from_ndarray(np.asarray(_on_white(animation)), format="rgb24").reformat(format="bgr0")
        frame.pts, frame.time_base = milliseconds, _MILLISECOND
        for packet in stream.encode(frame):
            video.mux(packet)
        milliseconds += max(_SHORTEST, int(animation.info.get("duration", 0)))
    video.mux(stream.encode())


def _on_white(picture: Image.Image) -> Image.Image:
    white = Image.new("RGBA", picture.size, "white")
    return Image.alpha_composite(white, picture.convert("RGBA")).convert("RGB")
