"""What a file is, checked before anything of it is decoded."""

from dataclasses import dataclass
from pathlib import Path

from PIL import ExifTags, Image

from cosmos_batch.catalogue.formats import EXTENSIONS
from cosmos_batch.catalogue.limits import IMAGE_PIXEL_LIMIT, IMAGE_SIDE_LIMIT, VIDEO_PIXEL_LIMIT
from cosmos_batch.media.containers import decode, open_video, with_time_limit
from cosmos_batch.media.errors import unusable_file
from cosmos_batch.media.images import open_image
from cosmos_batch.media.signatures import Format, identify_file
from cosmos_batch.media.timeline import Timeline, read_timeline

# Formats whose further pictures are an animation. A JPEG's are its previews and depth maps.
_ANIMATED = ("PNG", "WEBP")
_LYING = range(5, 9)  # of EXIF's orientations, those that swap the sides
_HALF_TURN = 180  # degrees


@dataclass(frozen=True)
class ImageInfo:
    """A still image: width and height in pixels, as stored."""

    width: int
    height: int


@dataclass(frozen=True)
class VideoInfo:
    """A video: width and height in pixels as stored, FFmpeg's name of its codec, when its frames are shown."""

    width: int
    height: int
    codec: str
    timeline: Timeline


def probe(path: Path) -> ImageInfo | VideoInfo:
    """Look at a file by its content; its extension must agree with what is found.

    An image's header is read, a video's packets are read through to the end; no pixel is decoded.

    Raises
    ------
    Failure
        InvalidInput where the file is empty, no media, not what its extension says, too large, truncated, or a video
        without a picture.
    """
    found = _agreed_format(path)
    return _probe_image(path) if found.medium == "image" else _probe_video(path)


def upright_size(path: Path) -> tuple[int, int]:
    """Width and height of a probed file in pixels, turned as it says; of a video, by its first frame.

    Raises Failure (InvalidInput) where it is damaged.
    """
    if identify_file(path).medium == "image":
        with open_image(path) as image:
            width, height = image.size
            lies = image.getexif().get(ExifTags.Base.Orientation) in _LYING
    else:
        with open_video(path) as (container, stream):
            frame = next(decode(container, stream, with_time_limit()), None)
            if frame is None:
                raise unusable_file("The video is damaged: none of its frames can be decoded.")
            width, height = frame.width, frame.height
            lies = frame.rotation % _HALF_TURN != 0
    return (height, width) if lies else (width, height)


def _agreed_format(path: Path) -> Format:
    extension = path.suffix.lower()
    if path.stat().st_size == 0:
        raise unusable_file("The file is empty (0 bytes).", "Upload it again; the first upload may have been cut off.")
    found = identify_file(path)
    if extension in found.extensions:
        return found
    if found.extensions:
        remedy = f"Name it {' or '.join(found.extensions)} if that is what you meant to upload."
    else:
        remedy = f"Upload one of {', '.join(EXTENSIONS)}."
    raise unusable_file(f"The content is {found.label}, but the name ends in {extension or 'no extension'}.", remedy)


def _probe_image(path: Path) -> ImageInfo:
    with open_image(path) as image:
        _check_image_size(*image.size)
        _check_still(image)
        return ImageInfo(*image.size)


def _check_image_size(width: int, height: int) -> None:
    if width * height > IMAGE_PIXEL_LIMIT or max(width, height) > IMAGE_SIDE_LIMIT:
        raise unusable_file(
            f"The image is {width:,} x {height:,} pixels; allowed are {IMAGE_SIDE_LIMIT:,} a side and "
            f"{IMAGE_PIXEL_LIMIT:,} in all.",
            "Scale it down or cut it into tiles, and upload those.",
        )


def _check_still(image: Image.Image) -> None:
    frames = getattr(image, "n_frames", 1)
    if image.format in _ANIMATED and frames > 1:
        raise unusable_file(
            f"The image is an animation of {frames} frames, of which only one would be seen.",
            "Convert it to an MP4, or upload the frame you mean as a still image.",
        )


def _probe_video(path: Path) -> VideoInfo:
    with open_video(path) as (container, stream):
        width, height = stream.codec_context.width, stream.codec_context.height
        _check_video_size(width, height)
        return VideoInfo(width, height, stream.codec_context.name, read_timeline(container, stream))


def _check_video_size(width: int, height: int) -> None:
    if width * height > VIDEO_PIXEL_LIMIT:
        raise unusable_file(
            f"The video is {width:,} x {height:,} pixels; allowed are {VIDEO_PIXEL_LIMIT:,} a frame.",
            "Scale it down to 7680 x 4320 or less and upload that.",
        )
