"""Small pictures of media files: the poster of a file, and frames of a video at given times."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.container import InputContainer
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from PIL import Image

from cosmos_batch.contract.error import Failure
from cosmos_batch.media import probe
from cosmos_batch.media.decoding import decode, open_video, with_time_limit
from cosmos_batch.media.displaying import displayed_frames, displayed_size
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.images import decode_upright, open_image
from cosmos_batch.media.previews import shrunk_size
from cosmos_batch.media.probing import VideoInfo
from cosmos_batch.media.rotation import quarter_turns
from cosmos_batch.media.signatures import Source, identify_file

POSTER_SIDE = 320  # pixels of the longer side
PICTURE_SIDE = 2560  # pixels of an image that browsers do not show
SHEET_COLUMNS = 32
SHEET_FRAMES = 1024  # the frames on a sheet, at most
_CELL_SIDE = 128  # pixels of a frame's longer side
_POSTER_SECONDS = 1.0  # the first frame is often black
_WIDEST_PIXEL = 16
_JPEG: dict[str, Any] = {"format": "JPEG", "quality": 80}


def write_poster(media: Source, target: Path, side: int = POSTER_SIDE) -> None:
    """Write a JPEG of an image, or of a frame near the beginning of a video, of at most `side` pixels a side.

    Raises Failure (InvalidInput) where it cannot be decoded.
    """
    file_format = identify_file(media)
    if file_format.medium == "video":
        with open_video(media) as (container, stream):
            pixels = displayed(_early_frame(container, stream), stream.sample_aspect_ratio, side, VideoReformatter())
        picture = Image.fromarray(pixels)
    elif file_format.medium == "image":
        with open_image(media) as image:
            image.draft("RGB", (side, side))
            upright = decode_upright(image)
        picture = upright.resize(shrunk_size(upright.size, side))
    else:
        raise unusable_file(f"The file is {file_format.label}.")
    picture.save(target, **_JPEG)


def write_frame_sheet(media: Path, times: list[float], target: Path) -> None:
    """Write a JPEG of the frames that a video shows at these ascending times, row by row, `SHEET_COLUMNS` a row.

    Raises Failure (InvalidInput) where the video cannot be decoded.
    """
    info = probe(media)
    if not isinstance(info, VideoInfo):
        raise unusable_file(f"{media.name} is an image, and has no frames.")
    width, height = shrunk_size(displayed_size(media), _CELL_SIDE)
    stored = info.timeline.times
    nearest = [float(stored[int(np.abs(stored - seconds).argmin())]) for seconds in times]
    sheet = Image.new("RGB", (width * min(SHEET_COLUMNS, len(times)), height * -(-len(times) // SHEET_COLUMNS)))
    for number, pixels in enumerate(displayed_frames(media, info.timeline, nearest, (width, height))):
        row, column = divmod(number, SHEET_COLUMNS)
        sheet.paste(Image.fromarray(pixels), (column * width, row * height))
    sheet.save(target, **_JPEG)


def display_size(frame: av.VideoFrame, aspect: Fraction | None, side: int) -> tuple[int, int]:
    """Return width and height of a frame on the screen: upright, with square pixels, the longer side at most `side`.

    `aspect` is the aspect ratio of the stored pixels.
    """
    width, height = shown_size(frame.width, frame.height, aspect)
    return shrunk_size((height, width) if quarter_turns(frame) % 2 else (width, height), side)


def shown_size(width: int, height: int, aspect: Fraction | None) -> tuple[int, int]:
    """Return the size in square pixels of a picture whose pixels have the aspect ratio `aspect`; None is square.

    What a damaged file declares beyond `_WIDEST_PIXEL` is square too.
    """
    ratio = float(aspect or 1)
    if not 1 / _WIDEST_PIXEL <= ratio <= _WIDEST_PIXEL:
        return width, height
    return (max(1, round(width * ratio)), height) if ratio >= 1 else (width, max(1, round(height / ratio)))


def displayed(frame: av.VideoFrame, aspect: Fraction | None, side: int, scaler: VideoReformatter) -> np.ndarray:
    """Return a frame as it is on the screen, at `display_size`: RGB, uint8, [height, width, 3]."""
    width, height = display_size(frame, aspect, side)
    turns = quarter_turns(frame)
    scaled = scaler.reformat(frame, *((height, width) if turns % 2 else (width, height)), "rgb24")
    return np.ascontiguousarray(np.rot90(scaled.to_ndarray(), turns))


def _early_frame(container: InputContainer, stream: VideoStream) -> av.VideoFrame:
    """Return the first frame after `_POSTER_SECONDS`, or the last one of a shorter video."""
    early = None
    begin: float | None = None
    for frame in _frames(container, stream):
        early = frame
        begin = frame.time if begin is None else begin
        if frame.time is None or begin is None or frame.time - begin >= _POSTER_SECONDS:
            break
    assert early is not None, "_frames yields one or raises"
    return early


def _frames(container: InputContainer, stream: VideoStream) -> Iterator[av.VideoFrame]:
    """Yield the frames of a video. Raises Failure (InvalidInput) where there is none."""
    count = 0
    for frame in decode(container, stream, with_time_limit()):
        count += 1
        yield frame
    if not count:
        raise Failure("InvalidInput", "None of the video's frames can be decoded.", "Export or copy the file again.")
