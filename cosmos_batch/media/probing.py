"""Finds out what a file is, and checks it before any pixel is decoded."""

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.limits import VIDEO_PIXEL_LIMIT
from cosmos_batch.contract.error import Failure
from cosmos_batch.media.decoding import UNDECODED, decode, open_video, with_time_limit
from cosmos_batch.media.errors import label_failures, unusable_file
from cosmos_batch.media.images import open_image, size_when_upright
from cosmos_batch.media.rotation import quarter_turns
from cosmos_batch.media.signatures import Format, identify_file
from cosmos_batch.media.timeline import Timeline, read_timeline

# The format in which several pictures are an animation that is not read as a video. Further pictures in a JPEG or HEIC
# are previews and depth maps.
_ANIMATED = ("PNG",)


@dataclass(frozen=True)
class ImageInfo:
    """A still image: width and height in pixels, as stored."""

    width: int
    height: int


@dataclass(frozen=True)
class VideoInfo:
    """A video: width and height in pixels as its headers say, FFmpeg's names of its codec and of how its pixels are
    stored (None where only a decoded frame would say it), and the times of its frames.
    """

    width: int
    height: int
    codec: str
    pixel_format: str | None
    timeline: Timeline


def probe(path: Path) -> ImageInfo | VideoInfo:
    """Return the properties of an image or a video. Its extension may be that of another format (see `note_on_name`).

    The header of an image is read, or all packets of a video; no pixel is decoded, but of an animated WebP.

    Raises
    ------
    Failure
        InvalidInput where the file is empty, no image or video, too large, truncated, or has no video stream.
    """
    file_format = _format_of(path)
    return _probe_image(path) if file_format.medium == "image" else _probe_video(path)


def probe_control(name: str, path: Path) -> VideoInfo:
    """Return what `probe` does of a control video. Raises Failure (InvalidInput) that begins with the control."""
    with label_failures(f"controls.{name}: "):
        info = probe(path)
    if not isinstance(info, VideoInfo):
        raise Failure("InvalidInput", f"controls.{name}: is an image; a video is needed.", "Name its video.")
    return info


def upright_size(path: Path) -> tuple[int, int]:
    """Return width and height in pixels of a probed file as it is displayed; for a video, of its first frame.

    Raises Failure (InvalidInput) where it is damaged.
    """
    if identify_file(path).medium == "image":
        with open_image(path) as image:
            return size_when_upright(image)
    with open_video(path) as (container, stream):
        frame = next(decode(container, stream, with_time_limit()), None)
        if frame is None:
            raise unusable_file("The video is damaged: none of its frames can be decoded.")
        return (frame.height, frame.width) if quarter_turns(frame) % 2 else (frame.width, frame.height)


def _format_of(path: Path) -> Format:
    extension = path.suffix.lower()
    if path.stat().st_size == 0:
        raise unusable_file("The file is empty (0 bytes).", "Upload it again; the first upload may have been cut off.")
    file_format = identify_file(path)
    if file_format.medium is not None:
        return file_format
    raise unusable_file(
        f"The content is {file_format.label}, but the name ends in {extension or 'no extension'}.",
        f"Upload one of {', '.join(EXTENSIONS)}.",
    )


def _probe_image(path: Path) -> ImageInfo:
    with open_image(path) as image:
        _check_still(image)
        return ImageInfo(*image.size)


def _check_still(image: Image.Image) -> None:
    frames = getattr(image, "n_frames", 1)
    if image.format in _ANIMATED and frames > 1:
        raise unusable_file(
            f"The image is an animation of {frames} frames, of which only one would be seen.",
            "Convert it to an MP4, or upload the frame you mean as a still image.",
        )


def _probe_video(path: Path) -> VideoInfo:
    with open_video(path, reorder_depth=UNDECODED) as (container, stream):
        context = stream.codec_context
        _check_video_size(context.width, context.height)
        timeline = read_timeline(container, stream)
        return VideoInfo(context.width, context.height, context.name, context.pix_fmt, timeline)


def _check_video_size(width: int, height: int) -> None:
    if width * height > VIDEO_PIXEL_LIMIT:
        raise unusable_file(
            f"The video is {width:,} x {height:,} pixels; allowed are {VIDEO_PIXEL_LIMIT:,} a frame.",
            "Scale it down to 7680 x 4320 or less and upload that.",
        )
