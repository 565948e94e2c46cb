"""Write an image or a video again, upright, with the marks of an answer drawn on it."""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from cosmos_batch.media import VideoInfo, exact_rate, frames_at_size, image_at_size, probe, upright_size, write_video
from cosmos_batch.viewing.drawing import Pixels, draw_marks
from cosmos_batch.viewing.marks import Marks

_MOMENT = 0.5  # seconds for which a mark of a single moment is shown before and after it


def overlay_name(media: Path) -> str:
    """Return the name of the file that `write_overlay` makes of a file: a PNG for an image, an MP4 for a video."""
    return f"{media.stem}.overlay.{'mp4' if isinstance(probe(media), VideoInfo) else 'png'}"


def write_overlay(media: Path, marks: Marks, target: Path) -> None:
    """Write an image as PNG or a video as MP4, without its sound, with the marks drawn on it.

    A box or point without a time is on every frame; one of a single moment is there for half a second around it.
    Raises Failure (InvalidInput) where the media cannot be read.
    """
    info = probe(media)
    size = upright_size(media)
    if not isinstance(info, VideoInfo):
        Image.fromarray(draw_marks(image_at_size(media, size), marks)).save(target, "PNG")
        return
    even = (max(2, size[0] // 2 * 2), max(2, size[1] // 2 * 2))  # H.264 has no odd sides
    write_video(target, _frames(media, info, marks, even), exact_rate(info.timeline.fps))


def _frames(media: Path, info: VideoInfo, marks: Marks, size: tuple[int, int]) -> Iterator[Pixels]:
    times = [float(seconds) for seconds in info.timeline.times]
    for seconds, pixels in zip(times, frames_at_size(media, info.timeline, times, size), strict=True):
        visible = marks.at(seconds, _MOMENT)
        yield draw_marks(pixels, visible) if visible else pixels
