"""The size of a picture as a person sees it."""

from pathlib import Path

from PIL import ExifTags

from cosmos_batch.media.containers import decode, open_video
from cosmos_batch.media.images import open_image
from cosmos_batch.media.refusal import refuse
from cosmos_batch.media.signatures import identify_file
from cosmos_batch.media.time_limit import in_time

_LYING = range(5, 9)  # of EXIF's orientations, those that swap the sides
_HALF_TURN = 180  # degrees


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
            frame = next(decode(container, stream, in_time()), None)
            if frame is None:
                raise refuse("The video is damaged: none of its frames can be decoded.")
            width, height = frame.width, frame.height
            lies = frame.rotation % _HALF_TURN != 0
    return (height, width) if lies else (width, height)
