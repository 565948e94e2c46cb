"""Draw what was made of one prompt on one page: every image, or three frames of every video, under its name."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from PIL import Image

from cosmos_batch.media import VideoInfo, displayed_frames, displayed_image, displayed_size, probe
from cosmos_batch.media.previews import evenly_spaced, shrunk_size
from cosmos_batch.viewing.drawing import DPI, Pixels, font_families, font_notes, plain, render, shorten

TILES_LIMIT = 64  # the most tiles on one page
FRAMES_OF_VIDEO = 3
_COLUMNS, _COLUMNS_OF_VIDEOS = 4, 2
_SIDE = 320  # pixels of the longer side of a picture
_PAGE_WIDTH, _TITLE_HEIGHT, _LINE_HEIGHT = 14.4, 0.3, 0.22  # inches
_LINE_CHARACTERS, _LINES_LIMIT, _TITLE_CHARACTERS = 150, 12, 60


@dataclass(frozen=True)
class Tile:
    """One file that was made: its pictures side by side, and the name under which it stands."""

    title: str
    pixels: Pixels
    is_video: bool

    @classmethod
    def read(cls, media: Path, title: str) -> "Tile":
        """Return an image, or the first, the middle and the last frame of a video. Raises Failure if it is damaged."""
        info = probe(media)
        size = shrunk_size(displayed_size(media), _SIDE)
        if not isinstance(info, VideoInfo):
            return cls(title, displayed_image(media, size), is_video=False)
        times = evenly_spaced(info.timeline.times, FRAMES_OF_VIDEO)
        return cls(title, np.concatenate(list(displayed_frames(media, info.timeline, times, size)), axis=1), True)


def write_prompt_sheet(prompt: str, tiles: Sequence[Tile], target: Path) -> list[str]:
    """Write a page of at most `TILES_LIMIT` tiles as a PNG, and return notes for a person."""
    columns = min(_COLUMNS_OF_VIDEOS if any(tile.is_video for tile in tiles) else _COLUMNS, len(tiles))
    rows = [tiles[start : start + columns] for start in range(0, len(tiles), columns)]
    lines = textwrap.wrap(" ".join(prompt.split()), _LINE_CHARACTERS)[:_LINES_LIMIT]
    inches = [(len(lines) + 1) * _LINE_HEIGHT, *(_row_inches(row, columns) for row in rows)]
    figure = Figure(figsize=(_PAGE_WIDTH, sum(inches)), dpi=DPI, facecolor="white")
    grid = GridSpec(len(inches), columns, figure, 0.01, 0.01, 0.99, 0.99, wspace=0.02, hspace=0.0, height_ratios=inches)
    text = figure.add_subplot(grid[0, :])
    text.set_axis_off()
    text.text(0, 1, plain("\n".join(lines)), fontsize=10, family=font_families(), va="top", transform=text.transAxes)
    for number, tile in enumerate(tiles):
        axes = figure.add_subplot(grid[1 + number // columns, number % columns])
        axes.set_axis_off()
        axes.imshow(tile.pixels, interpolation="nearest")
        axes.set_title(plain(shorten(tile.title, _TITLE_CHARACTERS)), fontsize=9, pad=3, family=font_families())
    Image.fromarray(render(figure)[..., :3]).save(target, "PNG", optimize=True)
    return font_notes(prompt + "".join(tile.title for tile in tiles))


def _row_inches(row: Sequence[Tile], columns: int) -> float:
    """Return the height of a row: that of its tallest tile, with the title above it."""
    tallest = max(tile.pixels.shape[0] / tile.pixels.shape[1] for tile in row)
    return float(_PAGE_WIDTH / columns * min(tallest, 1.0) + _TITLE_HEIGHT)
