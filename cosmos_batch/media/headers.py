"""Reads the duration and the picture size in the header of a media file, for estimates before it is downloaded."""

from dataclasses import dataclass
from typing import BinaryIO

import av

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.images import open_image, refuse_large_file
from cosmos_batch.media.signatures import ANIMATED_WEBP, identify_file


@dataclass(frozen=True)
class Header:
    """The facts in a file's header: kind, width and height in pixels, and the length of a video in seconds."""

    medium: Medium
    width: int
    height: int
    seconds: float = 0.0


def read_header(file: BinaryIO) -> Header:
    """Return the header of a file that can be sought in. No pixel is decoded and no packet is read.

    A stream without a length in its header, such as a recording that was cut off, counts as 0 seconds. Raises Failure
    (InvalidInput) where it is no image or video, damaged, or an image of more bytes or pixels than are read.
    """
    file_format = identify_file(file)
    if file_format.medium is None:
        raise unusable_file(f"The content is {file_format.label}, whose header cannot be read here.")
    if file_format.medium == "image":
        with open_image(file) as image:
            return Header("image", *image.size)
    try:
        if file_format == ANIMATED_WEBP:
            refuse_large_file(file)
            return _read_animated_webp(file)
        return _read_video(file, file_format.opener)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise unusable_file(f"The header is damaged or missing ({error}).") from error


def _read_animated_webp(file: BinaryIO) -> Header:
    """Return the size of the canvas and the duration of all pictures, as their chunks have them. Raises Failure.

    The format: https://developers.google.com/speed/webp/docs/riff_container
    """
    width = height = milliseconds = 0
    start = 12  # the chunks begin after RIFF, the length and WEBP
    while file.seek(start) == start and len(head := file.read(24)) == 24:
        kind, size = head[:4], int.from_bytes(head[4:8], "little")
        if kind == b"VP8X":
            width, height = (1 + int.from_bytes(head[at : at + 3], "little") for at in (12, 15))
        elif kind == b"ANMF":
            milliseconds += int.from_bytes(head[20:23], "little")
        start += 8 + size + size % 2
    if width == 0:
        raise unusable_file("The header is damaged or missing (it ends before the size of the animation).")
    return Header("video", width, height, milliseconds / 1000)


def _read_video(file: BinaryIO, demuxer: str) -> Header:
    with av.open(file, "r", format=demuxer, metadata_errors="replace") as container:
        if not container.streams.video:
            raise unusable_file("The file holds no video stream.")
        stream = container.streams.video[0]
        length = 0.0
        if stream.duration is not None and stream.time_base is not None:
            length = float(stream.duration * stream.time_base)
        elif container.duration is not None:
            length = container.duration / av.time_base
        return Header("video", stream.codec_context.width, stream.codec_context.height, max(0.0, length))
