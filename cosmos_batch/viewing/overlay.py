"""Write an image or a video again, as a player shows it, with the marks of an answer drawn on it."""

from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from cosmos_batch.media import (
    VideoInfo,
    displayed_frames,
    displayed_image,
    displayed_size,
    exact_rate,
    frame_count_at,
    frame_times_at,
    probe,
    write_video,
)
from cosmos_batch.media.previews import shrunk_size
from cosmos_batch.viewing.drawing import Pixels, draw_marks, font_notes
from cosmos_batch.viewing.marks import Marks

_MOMENT = 0.5  # seconds for which a mark of a single moment is shown before and after it
_LONGER_SIDE = 3840  # pixels; few players show an H.264 video that is larger
_SLOWEST, _FASTEST = 1.0, 60.0  # frames a second


def overlay_suffix(media: Path) -> str:
    """Return how the name of an overlay of a file ends: as a PNG for an image, as an MP4 for a video."""
    return ".overlay.mp4" if isinstance(probe(media), VideoInfo) else ".overlay.png"


def write_overlay(media: Path, marks: Marks, target: Path) -> list[str]:
    """Write an image as PNG or a video as MP4, without its sound, with the marks drawn on it. Returns notes.

    A box or point without a time is on every frame; one of a single moment is there for half a second around it. The
    frames of a video come at an even rate, at the times that they have in it. One is in memory at a time.
    Raises Failure (InvalidInput) where the media cannot be read.
    """
    info = probe(media)
    size = shrunk_size(displayed_size(media), _LONGER_SIDE)
    if not isinstance(info, VideoInfo):
        Image.fromarray(draw_marks(displayed_image(media, size), marks)).save(target, "PNG")
        return font_notes(marks.text)
    fps = min(max(info.timeline.fps, _SLOWEST), _FASTEST)
    even = (max(2, size[0] // 2 * 2), max(2, size[1] // 2 * 2))  # H.264 has no odd sides
    write_video(target, _frames(media, info, marks, even, fps), exact_rate(fps))
    return font_notes(marks.text)


def _frames(media: Path, info: VideoInfo, marks: Marks, size: tuple[int, int], fps: float) -> Iterator[Pixels]:
    times = frame_times_at(info.timeline, fps, frame_count_at(info.timeline, fps))
    for seconds, pixels in zip(times, displayed_frames(media, info.timeline, times, size), strict=True):
        visible = marks.at(seconds, _MOMENT)
        yield draw_marks(pixels, visible) if visible else pixels
