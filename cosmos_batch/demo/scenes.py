"""The world that the demo model knows: one to three simple shapes that move for a few seconds.

A scene is a description in numbers. `cosmos_batch.demo.random_scenes` draws one by chance, `cosmos_batch.demo.drawing`
turns it into pixels, and `training.questions` into questions with true answers. Lengths are in units of the picture's
shorter side, times in seconds; x grows to the right and y downwards.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

ShapeKind = Literal["circle", "square", "triangle", "star"]
Colour = Literal["red", "green", "blue", "yellow", "orange", "purple", "black", "white"]
Background = Literal["plain", "gradient", "noisy"]
Move = Literal["left", "right", "up", "down", "fall", "rise", "bounce", "hit", "pushed", "pass", "approach"]

KINDS: tuple[ShapeKind, ...] = ("circle", "square", "triangle", "star")
COLOURS: dict[Colour, tuple[int, int, int]] = {
    "red": (215, 40, 40),
    "green": (40, 165, 60),
    "blue": (40, 80, 220),
    "yellow": (240, 215, 40),
    "orange": (245, 135, 25),
    "purple": (145, 55, 180),
    "black": (20, 20, 20),
    "white": (245, 245, 245),
}
BACKGROUNDS: tuple[Background, ...] = ("plain", "gradient", "noisy")
IMPLAUSIBLE: tuple[Move, ...] = ("rise", "pass")
"""Moves that break physics: a shape falls upwards, or passes through another one."""

_STAR_INNER = 0.45  # radius of a star's inner corners, as a share of the outer ones'


def outline(kind: ShapeKind) -> np.ndarray | None:
    """Return the corners of a shape of radius 1 around its centre, shape [corners, 2]; None for a circle."""
    if kind == "circle":
        return None
    if kind == "square":
        side = 0.9
        return np.array([(-side, -side), (side, -side), (side, side), (-side, side)])
    if kind == "triangle":
        return np.array([(0.0, -1.0), (1.0, 0.9), (-1.0, 0.9)])
    angles = np.arange(10) * np.pi / 5 - np.pi / 2
    radii = np.where(np.arange(10) % 2 == 0, 1.0, _STAR_INNER)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def extent(kind: ShapeKind) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a shape of radius 1, from its centre."""
    corners = outline(kind)
    if corners is None:
        return -1.0, -1.0, 1.0, 1.0
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


@dataclass(frozen=True)
class Movement:
    """A movement of one shape in a scene.

    Attributes
    ----------
    start, end
        Seconds at which it begins and ends. `end` may lie behind the end of the clip.
    by
        The distance that the shape covers until `end`, along x for moves to the left and right, else along y; never
        negative. For `bounce` it is the height of each bounce.
    other
        The index of the shape that is hit, passed through or approached.
    """

    move: Move
    start: float
    end: float
    by: float
    towards: int = 1
    other: int | None = None

    @property
    def direction(self) -> str:
        """Return "left" or "right", the direction of a movement along x."""
        return "right" if self.towards > 0 else "left"


BOUNCE_SECONDS = 1.2


@dataclass(frozen=True)
class Thing:
    """A shape with its place when the clip begins, and its movement."""

    kind: ShapeKind
    colour: Colour
    radius: float
    x: float
    y: float
    event: Movement | None = None

    @property
    def name(self) -> str:
        """Return its name, such as "red circle"."""
        return f"{self.colour} {self.kind}"

    def centres(self, times: np.ndarray) -> np.ndarray:
        """Return the place of its centre at each of the times, shape [times, 2]."""
        x, y = np.full(len(times), self.x), np.full(len(times), self.y)
        if self.event is None:
            return np.stack([x, y], axis=1)
        event = self.event
        share = np.clip((times - event.start) / (event.end - event.start), 0.0, 1.0)
        if event.move in ("left", "right", "hit", "pushed", "pass", "approach"):
            x = x + event.towards * event.by * share
        elif event.move == "up":
            y = y - event.by * share
        elif event.move == "down":
            y = y + event.by * share
        elif event.move == "fall":
            y = y + event.by * share**2
        elif event.move == "rise":
            y = y - event.by * share**2
        else:
            phase = np.clip(times - event.start, 0.0, event.end - event.start) / BOUNCE_SECONDS % 1.0
            y = y + event.by * (1 - (2 * np.abs(phase - 0.5)) ** 2)
        return np.stack([x, y], axis=1)

    def boxes(self, times: np.ndarray) -> np.ndarray:
        """Return left, top, right and bottom at each of the times, shape [times, 4]."""
        centres = self.centres(times)
        reach: np.ndarray = self.radius * np.array(extent(self.kind))
        return np.concatenate([centres, centres], axis=1) + reach


@dataclass(frozen=True)
class Scene:
    """The content of a clip or an image.

    Attributes
    ----------
    width, height
        The picture's size, in units of its shorter side.
    duration
        Seconds; 0 for an image.
    tones
        The background's colours, RGB from 0 to 255: one, or the two ends of a gradient.
    grain
        Standard deviation of the noise of a noisy background, 0 to 255.
    seed
        The seed of the noise.
    """

    width: float
    height: float
    duration: float
    things: tuple[Thing, ...]
    background: Background
    tones: tuple[tuple[int, int, int], ...]
    grain: float
    vertical: bool
    seed: int

    @property
    def events(self) -> list[tuple[int, Movement]]:
        """Return the movements with the indices of their shapes, in the order in which they begin.

        A shape that is pushed by another has no movement of its own.
        """
        events = [(index, thing.event) for index, thing in enumerate(self.things) if thing.event is not None]
        own = [(index, event) for index, event in events if event.move != "pushed"]
        return sorted(own, key=lambda pair: pair[1].start)

    @property
    def is_plausible(self) -> bool:
        """Return whether nothing in it breaks physics."""
        return all(event.move not in IMPLAUSIBLE for _, event in self.events)
