"""Draw marks on one picture with matplotlib, whose text falls back from font to font until a script is covered."""

import unicodedata
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from cosmos_batch.viewing.marks import Box, Event, Marks, Point

DPI = 100
# Colors of matplotlib's "tab10" that stand out on photographs.
_COLORS = ("#ff7f0e", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#e377c2", "#17becf", "#bcbd22")
_LABEL_LIMIT = 60  # characters of a label on a picture
_SMALLEST_TEXT, _TEXT_SHARE = 7.0, 0.028  # points; share of the picture's height
_FALLBACK_FAMILIES = ("Noto Sans CJK", "Noto Sans", "Noto", "Unifont", "FreeSans", "Arial Unicode MS", "Symbola")
_COLORED = "Color Emoji"  # fonts of colored bitmaps, which matplotlib cannot draw
_JOINERS = "\u200c\u200d"  # the characters without a shape that scripts of India and emoji need
_CJK = ("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO", "IDEOGRAPHIC", "FULLWIDTH")  # of Unicode's names
Pixels = np.ndarray  # RGB, uint8, [height, width, 3]


@cache
def font_families() -> list[str]:
    """Return the fonts to try for each character: matplotlib's own, then those of this machine that have many scripts.

    DejaVu Sans, which comes with matplotlib, has Latin, Greek, Cyrillic, Hebrew, Arabic and more; for Chinese,
    Japanese, Korean and the scripts of India the machine needs a font such as Noto.
    """
    _find_new_fonts()
    installed = {font.name for font in font_manager.fontManager.ttflist}
    others = sorted(name for name in installed if name.startswith(_FALLBACK_FAMILIES) and _COLORED not in name)
    return ["DejaVu Sans", *others]


def _find_new_fonts() -> None:
    """Tell matplotlib of fonts that were installed after it wrote its list, which it keeps in a file for good."""
    known = {font.fname for font in font_manager.fontManager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        with suppress(OSError, RuntimeError):  # a font that FreeType cannot read
            font_manager.fontManager.addfont(path)


@lru_cache(maxsize=4)
def mark_layer(width: int, height: int, marks: Marks) -> np.ndarray:
    """Return the marks alone on a transparent picture: RGBA, uint8, [height, width, 4].

    Frames that follow each other mostly have the same marks, and drawing takes far longer than blending.
    """
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="none")
    add_marks(figure.add_axes((0, 0, 1, 1)), marks, width, height)
    return render(figure)[:height, :width]


def draw_marks(picture: Pixels, marks: Marks) -> Pixels:
    """Return the picture with boxes, points and the captions of events drawn on it. The size stays the same."""
    height, width, _ = picture.shape
    layer = mark_layer(width, height, marks)
    drawn = layer[..., 3] > 0
    opacity = layer[drawn][:, 3:].astype(np.float32) / 255
    blended = picture.copy()
    blended[drawn] = (picture[drawn] * (1 - opacity) + layer[drawn][:, :3] * opacity).round()
    return blended


def add_marks(axes: Axes, marks: Marks, width: int, height: int) -> None:
    """Add boxes, points, trajectories and captions to axes that show a picture of `width` x `height`."""
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    size = max(_SMALLEST_TEXT, height * _TEXT_SHARE * 72 / DPI)
    colors = color_of_labels([*(box.label for box in marks.boxes), *(point.label for point in marks.points)])
    for box in marks.boxes:
        _add_box(axes, box, width, height, colors[box.label], size)
    for label in dict.fromkeys(point.label for point in marks.points):
        _add_points(axes, [point for point in marks.points if point.label == label], width, height, colors[label], size)
    if marks.events:
        _add_captions(axes, marks.events, width, height, size)


def color_of_labels(labels: Iterable[str]) -> dict[str, str]:
    """Return a color for each label, the same for all marks of one label."""
    return {label: _COLORS[number % len(_COLORS)] for number, label in enumerate(dict.fromkeys(labels))}


def render(figure: Figure) -> np.ndarray:
    """Return the pixels of a figure: RGBA, uint8, [height, width, 4]."""
    canvas: Any = FigureCanvasAgg(figure)  # matplotlib's canvases have no types
    with warnings.catch_warnings():
        # matplotlib draws a character that no font has as a box; `missing_characters` tells the person.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def missing_characters(text: str) -> str:
    """Return the characters of a text that no font of this machine has, each once."""
    text = drawable(text)
    fonts = [font_manager.get_font(font_manager.findfont(family)) for family in font_families()]
    unknown = (
        character
        for character in dict.fromkeys(text)
        if not character.isspace() and not any(font.get_char_index(ord(character)) for font in fonts)
    )
    return "".join(unknown)


def shorten(text: str, limit: int) -> str:
    """Return the text on one line, cut to `limit` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def font_notes(text: str) -> list[str]:
    """Return a note for a person where no font of this machine has some of the text's characters."""
    missing = missing_characters(text)
    if not missing:
        return []
    packages = " ".join(sorted({_font_package(character) for character in missing}))
    return [
        f"No font of this machine has {shorten(missing, 20)}: boxes stand for these characters. To have them drawn: "
        f"sudo apt install {packages}; or copy such a font to ~/.local/share/fonts."
    ]


def _font_package(character: str) -> str:
    """Return the package of Debian and Ubuntu with a font that has a character, as far as its kind tells."""
    if unicodedata.name(character, "").startswith(_CJK):
        return "fonts-noto-cjk"
    return "fonts-symbola" if unicodedata.category(character).startswith("S") else "fonts-noto-core"


def drawable(text: str) -> str:
    """Return the text with a mark in place of what is not to be drawn or printed.

    A label comes from a model: it may have control characters, which a terminal would obey, characters that turn the
    direction of writing, or halves of characters, which FreeType refuses.
    """
    return "".join(character if _is_drawable(character) else "\N{REPLACEMENT CHARACTER}" for character in text)


def _is_drawable(character: str) -> bool:
    return character in "\n\t" or character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs")


def plain(text: str) -> str:
    """Return the text with its dollar signs escaped, between which matplotlib would read a formula."""
    return drawable(text).replace("$", r"\$")


def _add_box(axes: Axes, box: Box, width: int, height: int, color: str, size: float) -> None:
    left, top = box.left * width, box.top * height
    outline = Rectangle(
        (left, top), (box.right - box.left) * width, (box.bottom - box.top) * height, fill=False, edgecolor=color
    )
    outline.set_linewidth(max(1.5, size / 5))
    outline.set_path_effects([withStroke(linewidth=max(2.5, size / 5 + 1.5), foreground="black")])
    axes.add_patch(outline)
    _add_label(axes, left, top, box.label, color, size)


def _add_points(axes: Axes, points: list[Point], width: int, height: int, color: str, size: float) -> None:
    """Add points of one label; several of them are a trajectory, and joined in their order."""
    places = [(point.x * width, point.y * height) for point in points]
    for (x, y), (next_x, next_y) in pairwise(places):
        axes.annotate("", (next_x, next_y), (x, y), arrowprops={"arrowstyle": "->", "color": color, "linewidth": 1.5})
    axes.plot(*zip(*places, strict=True), "o", color=color, markeredgecolor="black", markersize=max(5.0, size * 0.7))
    _add_label(axes, *places[0], points[0].label, color, size)


def _add_label(axes: Axes, x: float, y: float, label: str, color: str, size: float) -> None:
    if not label:
        return
    axes.text(
        x,
        y,
        plain(shorten(label, _LABEL_LIMIT)),
        color="white",
        fontsize=size,
        family=font_families(),
        va="top",
        clip_on=True,
        bbox={"facecolor": color, "edgecolor": "none", "pad": 1.5},
    )


def _add_captions(axes: Axes, events: Iterable[Event], width: int, height: int, size: float) -> None:
    lines = "\n".join(plain(shorten(event.caption, _LABEL_LIMIT)) for event in events)
    axes.text(
        width / 2,
        height * 0.98,
        lines,
        color="white",
        fontsize=size,
        family=font_families(),
        ha="center",
        va="bottom",
        clip_on=True,
        bbox={"facecolor": "black", "alpha": 0.6, "edgecolor": "none", "pad": 2},
    )
