"""Draw one page of pictures: frames with their times and marks, the answer above them, a timeline of events below."""

import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from PIL import Image

from cosmos_batch.media import VideoInfo, displayed_frames, displayed_image, displayed_size, probe
from cosmos_batch.media.previews import evenly_spaced, shrunk_size
from cosmos_batch.viewing.drawing import (
    DPI,
    Pixels,
    add_marks,
    color_of_labels,
    font_families,
    font_notes,
    plain,
    render,
    shorten,
)
from cosmos_batch.viewing.marks import Event, Marks

COLUMNS, PICTURES = 4, 16
MORE_COLUMNS, PICTURES_LIMIT = 8, 64  # for a clip of which the model saw more frames than `PICTURES`
_PICTURE_SIDE = 360  # pixels of the longer side
_PAGE_WIDTH = 14.4  # inches
_LINE_HEIGHT = 0.22  # inches
_LINE_CHARACTERS = 150
_LINES_LIMIT = 12
_EVENT_HEIGHT, _AXIS_HEIGHT = 0.3, 0.5  # inches
_EVENTS_LIMIT = 24
_TITLE_HEIGHT = 0.3  # inches above each picture, for its time


@dataclass(frozen=True)
class AnswerSheet:
    """The content of a contact sheet about one file.

    Attributes
    ----------
    media
        The image or video that the answer is about.
    answer
        The text above the pictures.
    marks
        What is drawn on the pictures and on the timeline.
    seen
        Times of the frames that the model saw, in seconds, ascending; None shows frames that lie evenly in the clip.
    """

    media: Path
    answer: str
    marks: Marks
    seen: tuple[float, ...] | None = None


@dataclass(frozen=True)
class _Picture:
    pixels: Pixels
    title: str
    marks: Marks


def write_answer_sheet(sheet: AnswerSheet, target: Path) -> list[str]:
    """Write the sheet as a PNG, and return notes for a person.

    Raises Failure (InvalidInput) where the media cannot be read.
    """
    media = probe(sheet.media)
    pictures = _clip_pictures(sheet, media) if isinstance(media, VideoInfo) else [_image_picture(sheet)]
    duration = media.timeline.duration if isinstance(media, VideoInfo) else 0.0
    Image.fromarray(_page(sheet, pictures, duration)[..., :3]).save(target, "PNG", optimize=True)
    return font_notes(sheet.answer + sheet.marks.text)


def _image_picture(sheet: AnswerSheet) -> _Picture:
    size = shrunk_size(displayed_size(sheet.media), COLUMNS * _PICTURE_SIDE // 2)
    return _Picture(displayed_image(sheet.media, size), "", sheet.marks)


def _clip_pictures(sheet: AnswerSheet, media: VideoInfo) -> list[_Picture]:
    """Return frames of a clip, each with the marks that hold at its time or are nearest to it."""
    times = _times(media, sheet.seen)
    size = shrunk_size(displayed_size(sheet.media), _PICTURE_SIDE)
    frames = displayed_frames(sheet.media, media.timeline, times, size)
    reach = max(np.diff(times), default=media.timeline.duration) / 2
    return [
        _Picture(pixels, f"{seconds:.2f} s", sheet.marks.at(seconds, float(reach)))
        for seconds, pixels in zip(times, frames, strict=True)
    ]


def _times(media: VideoInfo, seen: tuple[float, ...] | None) -> list[float]:
    """Return times of frames of the clip, the first and the last among them: of those that the model saw, if known."""
    stored = media.timeline.times
    if seen is None:
        return evenly_spaced(stored, PICTURES)
    return evenly_spaced(
        np.unique(stored[[int(np.abs(stored - seconds).argmin()) for seconds in seen]]), PICTURES_LIMIT
    )


def _page(sheet: AnswerSheet, pictures: list[_Picture], duration: float) -> np.ndarray:
    """Return the whole page: RGBA, uint8, [height, width, 4]."""
    columns = min(COLUMNS if len(pictures) <= PICTURES else MORE_COLUMNS, len(pictures))
    rows = -(-len(pictures) // columns)
    height, width, _ = pictures[0].pixels.shape
    row_inches = _PAGE_WIDTH / columns * height / width + _TITLE_HEIGHT
    if len(pictures) == 1:
        row_inches = min(row_inches, _PAGE_WIDTH * 0.75)
    lines = [*_wrapped(sheet.answer), *_frames_shown(sheet, len(pictures))]
    events = sheet.marks.events[:_EVENTS_LIMIT] if duration else ()
    inches = [
        max(1, len(lines)) * _LINE_HEIGHT + _LINE_HEIGHT,
        *[row_inches] * rows,
        _AXIS_HEIGHT + _EVENT_HEIGHT * len(events) if events else 0.01,
    ]
    figure = Figure(figsize=(_PAGE_WIDTH, sum(inches)), dpi=DPI, facecolor="white")
    grid = GridSpec(
        len(inches), columns, figure, 0.01, 0.01 + _AXIS_HEIGHT / sum(inches) * bool(events), 0.99, 0.99,
        wspace=0.02, hspace=0.0, height_ratios=inches,
    )  # fmt: skip
    _add_answer(figure.add_subplot(grid[0, :]), lines)
    for number, picture in enumerate(pictures):
        _add_picture(figure.add_subplot(grid[1 + number // columns, number % columns]), picture)
    if events:
        _add_timeline(figure.add_subplot(grid[-1, :]), events, duration)
    return render(figure)


def _frames_shown(sheet: AnswerSheet, shown: int) -> list[str]:
    """Return a line that says which frames these are, where the sheet does not have all that the model saw."""
    seen = len(sheet.seen or ())
    return [f"{shown} of the {seen} frames that the model saw:"] if seen > shown else []


def _wrapped(answer: str) -> list[str]:
    lines = [part for line in answer.strip().splitlines() for part in textwrap.wrap(line, _LINE_CHARACTERS) or [""]]
    return lines if len(lines) <= _LINES_LIMIT else [*lines[: _LINES_LIMIT - 1], "…"]


def _add_answer(axes: Axes, lines: list[str]) -> None:
    axes.set_axis_off()
    axes.text(0, 1, plain("\n".join(lines)), fontsize=10, family=font_families(), va="top", transform=axes.transAxes)


def _add_picture(axes: Axes, picture: _Picture) -> None:
    height, width, _ = picture.pixels.shape
    axes.imshow(picture.pixels, extent=(0, width, height, 0), interpolation="nearest")
    axes.set_title(picture.title, fontsize=9, pad=3)
    # The captions of events stand on the timeline.
    add_marks(axes, Marks(picture.marks.boxes, picture.marks.points), width, height)


def _add_timeline(axes: Axes, events: tuple[Event, ...], duration: float) -> None:
    """Draw one bar for each event, in seconds of the clip, with its caption."""
    colors = color_of_labels(event.caption for event in events)
    # An event may end behind the clip, because a model said so.
    shown = min(max(duration, *(event.span.end for event in events)), 2 * duration)
    for row, event in enumerate(events):
        length = min(max(event.span.end - event.span.start, duration / 500), shown)
        axes.broken_barh([(event.span.start, length)], (row + 0.1, 0.8), facecolor=colors[event.caption], alpha=0.55)
        text = f"{event.span.start:.2f} to {event.span.end:.2f} s  {event.caption}"
        axes.text(
            duration * 0.005, row + 0.5, plain(shorten(text, _LINE_CHARACTERS)), va="center", fontsize=9,
            family=font_families(),
        )  # fmt: skip
    axes.set_xlim(0, shown)
    axes.set_ylim(len(events), 0)
    axes.set_yticks([])
    axes.set_xlabel("seconds", fontsize=8)
    axes.tick_params(labelsize=8)
