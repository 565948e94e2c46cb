"""What a media file is, read from its header alone, and whether browsers show it as it is."""

from dataclasses import dataclass
from typing import Literal

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from cosmos_batch.console.pictures import shown_size
from cosmos_batch.media.decoding import open_video
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.images import open_image, size_when_upright
from cosmos_batch.media.signatures import (
    ANIMATED_WEBP,
    AVI,
    GIF,
    HEIC,
    ISO_MEDIA,
    JPEG,
    MATROSKA,
    PNG,
    TRANSPORT_STREAM,
    WEBP,
    Source,
    identify_file,
)

# A QuickTime file plays as MP4 if its codec does.
CONTENT_TYPES = {
    ISO_MEDIA: "video/mp4",
    MATROSKA: "video/webm",
    AVI: "video/x-msvideo",
    JPEG: "image/jpeg",
    PNG: "image/png",
    WEBP: "image/webp",
    GIF: "image/gif",
    TRANSPORT_STREAM: "video/mp2t",
    ANIMATED_WEBP: "image/webp",
    HEIC: "image/heic",
}
_PLAYED = {ISO_MEDIA: ("h264", "av1", "vp9"), MATROSKA: ("vp8", "vp9", "av1")}
_SHOWN = (JPEG, PNG, WEBP)
_PIXELS = ("yuv420p", "yuvj420p")
_CODEC_NAMES = {"h264": "H.264", "hevc": "HEVC", "prores": "ProRes", "av1": "AV1", "vp9": "VP9", "vp8": "VP8"}


@dataclass(frozen=True)
class MediaFacts:
    """A media file that can be shown.

    Attributes
    ----------
    width, height
        Pixels as displayed; of a video without its rotation, which only its frames tell.
    seconds
        The length that a video's header says; 0 if it says none.
    offset
        Seconds on a player's clock at the first frame, where the sound begins before it.
    content_type
        The type by the file's content; its name is not asked.
    obstacle
        Why browsers do not show the file as it is; None if they do.
    """

    medium: Literal["video", "image"]
    width: int
    height: int
    content_type: str
    codec: str = ""
    seconds: float = 0.0
    offset: float = 0.0
    obstacle: str | None = None


def read_facts(media: Source) -> MediaFacts:
    """Return the facts in a file's header. Raises Failure (InvalidInput) if it is damaged, or no video or image."""
    file_format = identify_file(media)
    if file_format.medium is None:
        raise unusable_file(f"The file is {file_format.label}, and no video or image that the console shows.")
    content_type = CONTENT_TYPES[file_format]
    if file_format.medium == "image":
        with open_image(media) as image:
            width, height = size_when_upright(image)
        obstacle = None if file_format in _SHOWN else f"browsers do not show {file_format.label}"
        return MediaFacts("image", width, height, content_type, obstacle=obstacle)
    with open_video(media) as (container, stream):
        context = stream.codec_context
        width, height = shown_size(context.width, context.height, stream.sample_aspect_ratio)
        codec = _CODEC_NAMES.get(context.name, context.name)
        plays = context.name in _PLAYED.get(file_format, ()) and context.pix_fmt in _PIXELS
        pixels = f" ({context.pix_fmt})" if context.pix_fmt else ", in which the format of the pixels cannot be read,"
        return MediaFacts(
            "video",
            width,
            height,
            content_type,
            codec,
            (container.duration or 0) / av.time_base,
            _offset(container, stream),
            None if plays else f"browsers do not play {codec}{pixels} in {file_format.label}",
        )


def _offset(container: InputContainer, stream: VideoStream) -> float:
    """Return by how many seconds the picture begins after the earliest stream."""
    if stream.start_time is None or stream.time_base is None:
        return 0.0
    return max(0.0, float(stream.start_time * stream.time_base) - (container.start_time or 0) / av.time_base)
