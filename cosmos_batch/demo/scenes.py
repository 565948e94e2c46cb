"""The world that the demo model knows: one to three simple shapes that move for a few seconds.

A scene is a description in numbers. `cosmos_batch.demo.drawing` turns it into pixels, and `training.questions` into
questions with true answers. Lengths are in units of the picture's shorter side, times in seconds; x grows to the right
and y downwards.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["circle", "square", "triangle", "star"]
Colour = Literal["red", "green", "blue", "yellow", "orange", "purple", "black", "white"]
Background = Literal["plain", "gradient", "noisy"]
Move = Literal["left", "right", "up", "down", "fall", "rise", "bounce", "hit", "pushed", "pass", "approach"]

KINDS: tuple[Kind, ...] = ("circle", "square", "triangle", "star")
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


def outline(kind: Kind) -> np.ndarray | None:
    """Corners of a shape of radius 1 around its centre, shape [corners, 2]; None for a circle."""
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


def extent(kind: Kind) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a shape of radius 1, from its centre."""
    corners = outline(kind)
    if corners is None:
        return -1.0, -1.0, 1.0, 1.0
    (left, top), (right, bottom) = corners.min(axis=0), corners.max(axis=0)
    return float(left), float(top), float(right), float(bottom)


@dataclass(frozen=True)
class Event:
    """One movement of one shape.

    Attributes
    ----------
    start, end
        Seconds at which it begins and is over; `end` may lie behind the end of the clip.
    by
        How far the shape gets until `end`: along x for moves to the left and right, else along y; never negative. For
        `bounce` it is the height of each bounce.
    other
        Index of the shape that is hit, passed through or approached.
    """

    move: Move
    start: float
    end: float
    by: float
    towards: int = 1
    other: int | None = None

    @property
    def direction(self) -> str:
        """ "left" or "right", of a movement along x."""
        return "right" if self.towards > 0 else "left"


BOUNCE_SECONDS = 1.2


@dataclass(frozen=True)
class Thing:
    """A shape, where it is when the clip begins, and how it moves."""

    kind: Kind
    colour: Colour
    radius: float
    x: float
    y: float
    event: Event | None = None

    @property
    def name(self) -> str:
        """Such as "red circle"."""
        return f"{self.colour} {self.kind}"

    def centres(self, times: np.ndarray) -> np.ndarray:
        """Where its centre is at each of the times. Shape [times, 2]."""
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
        """Left, top, right and bottom at each of the times. Shape [times, 4]."""
        centres = self.centres(times)
        reach: np.ndarray = self.radius * np.array(extent(self.kind))
        return np.concatenate([centres, centres], axis=1) + reach


@dataclass(frozen=True)
class Scene:
    """What a clip or an image shows.

    Attributes
    ----------
    width, height
        Of the picture, in units of its shorter side.
    duration
        Seconds; 0 for an image.
    tones
        The background's colours: one, or the two ends of a gradient. RGB, 0 to 255.
    grain
        Standard deviation of the noise of a noisy background, 0 to 255.
    seed
        Of the noise.
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
    def events(self) -> list[tuple[int, Event]]:
        """The movements with the indices of their shapes, in the order in which they begin.

        A shape that is pushed by another has no movement of its own.
        """
        found = [(index, one.event) for index, one in enumerate(self.things) if one.event is not None]
        own = [(index, event) for index, event in found if event.move != "pushed"]
        return sorted(own, key=lambda pair: pair[1].start)

    @property
    def is_plausible(self) -> bool:
        """Whether nothing in it breaks physics."""
        return all(event.move not in IMPLAUSIBLE for _, event in self.events)


_SIZES = {  # width, height in pixels, and how often
    (320, 240): 5,
    (256, 192): 2,
    (240, 320): 2,
    (256, 256): 2,
    (426, 240): 2,
    (320, 180): 1,
    (640, 480): 1,
}
SIZES = tuple(_SIZES)
_TONES = (
    (235, 235, 235),
    (205, 210, 215),
    (225, 215, 195),
    (190, 205, 225),
    (200, 220, 200),
    (90, 90, 95),
    (60, 65, 85),
)
_CONTRAST = 110  # least distance of a shape's colour from every tone behind it
_MARGIN = 0.03
_GAP = 0.6  # seconds between the beginnings of two movements
_TRIES = 60


def draw_size(random: np.random.Generator) -> tuple[int, int]:
    """Width and height of a clip, in pixels."""
    weights = np.array(list(_SIZES.values()), float)
    return SIZES[int(random.choice(len(SIZES), p=weights / weights.sum()))]


def draw_scene(random: np.random.Generator, width: float, height: float, duration: float) -> Scene:
    """Draw a scene by chance: `duration` 0 gives an image. Shapes never overlap, but for those that pass through."""
    while True:
        for _ in range(_TRIES):
            scene = _attempt(random, width, height, duration)
            if scene is not None:
                return scene


def _attempt(random: np.random.Generator, width: float, height: float, duration: float) -> Scene | None:
    background: Background = BACKGROUNDS[random.integers(3)]
    tones = tuple(_TONES[i] for i in random.choice(len(_TONES), 2, replace=False))[
        : 2 if background == "gradient" else 1
    ]
    colours = _visible(tones)
    count = min(int(random.choice([1, 2, 3], p=[0.34, 0.36, 0.30])), len(colours))
    chosen = random.choice(len(colours), count, replace=False)
    shapes = [(KINDS[random.integers(4)], colours[index], float(random.uniform(0.10, 0.17))) for index in chosen]
    things = _place(random, shapes, width, height, duration)
    if things is None or _overlap(things, duration):
        return None
    return Scene(
        width=width,
        height=height,
        duration=duration,
        things=tuple(things),
        background=background,
        tones=tones,
        grain=float(random.uniform(6, 22)) if background == "noisy" else 0.0,
        vertical=bool(random.integers(2)),
        seed=int(random.integers(2**31)),
    )


def _visible(tones: tuple[tuple[int, int, int], ...]) -> list[Colour]:
    return [
        name
        for name, rgb in COLOURS.items()
        if all(np.linalg.norm(np.subtract(rgb, tone)) >= _CONTRAST for tone in tones)
    ]


_MOVES: tuple[Move, ...] = ("left", "right", "up", "down", "fall", "bounce", "rise")
_CHANCES = np.array([0.18, 0.18, 0.13, 0.13, 0.16, 0.11, 0.11])
_STILL = 0.2
_PAIR = 0.36  # of clips with two shapes or more, how many have an event between two of them


def _place(
    random: np.random.Generator, shapes: list[tuple[Kind, Colour, float]], width: float, height: float, duration: float
) -> list[Thing] | None:
    if duration == 0:
        return [_put(random, one, None, width, height) for one in shapes]
    things: list[Thing] = []
    starts = _starts(random, len(shapes), duration)
    if len(shapes) > 1 and random.random() < _PAIR:
        pair = _pair(random, shapes[0], shapes[1], starts[0], width, height, duration)
        if pair is None:
            return None
        things, shapes, starts = pair, shapes[2:], starts[1:]
    for one, start in zip(shapes, starts, strict=False):
        event = None if random.random() < _STILL else _draw_event(random, one, start, height, duration)
        if event is not None and event.move in ("left", "right", "up", "down"):
            room = (width if event.move in ("left", "right") else height) - 2 * one[2] - 2 * _MARGIN
            if event.by > room:
                return None
        things.append(_put(random, one, event, width, height))
    return things


def _starts(random: np.random.Generator, count: int, duration: float) -> list[float]:
    """When movements begin: at least `_GAP` apart, early enough to be seen."""
    latest = duration - 0.8
    slack = latest - _GAP * (count - 1)
    if slack <= 0:
        drawn = np.linspace(0.0, latest, count)
    else:
        drawn = np.sort(random.uniform(0.0, slack, count)) + _GAP * np.arange(count)
        if random.random() < 0.3:
            drawn[0] = 0.0
    return [round(float(one), 1) for one in random.permutation(drawn)]


def _draw_event(
    random: np.random.Generator, shape: tuple[Kind, Colour, float], start: float, height: float, duration: float
) -> Event:
    move = _MOVES[int(random.choice(len(_MOVES), p=_CHANCES))]
    # A quarter of the movements go on when the clip ends.
    last = duration + (random.uniform(0.2, 1.0) if random.random() < 0.25 else 0.0)
    if move == "bounce":
        return Event(move, start, duration + 2 * BOUNCE_SECONDS, float(random.uniform(0.25, 0.5)))
    if move in ("fall", "rise"):
        by = float(random.uniform(0.35, max(0.4, height - 2 * shape[2] - 3 * _MARGIN)))
        end = min(start + float(random.uniform(0.8, 1.4)), last)
        return Event(move, start, round(max(end, start + 0.7), 1), by)
    speed = float(random.uniform(0.2, 0.55))
    end = round(min(start + float(random.uniform(0.8, 2.5)), last), 1)
    end = max(end, round(start + 0.8, 1))
    by = max(0.22, speed * (end - start))
    return Event(move, start, end, by, towards=-1 if move == "left" else 1)


def _put(
    random: np.random.Generator, shape: tuple[Kind, Colour, float], event: Event | None, width: float, height: float
) -> Thing:
    """A shape somewhere from where its whole movement stays in the picture."""
    kind, colour, radius = shape
    low_x, high_x = radius + _MARGIN, width - radius - _MARGIN
    low_y, high_y = radius + _MARGIN, height - radius - _MARGIN
    ground = height - radius * extent(kind)[3]
    ceiling = -radius * extent(kind)[1]
    if event is not None:
        if event.move == "left":
            low_x += event.by
        elif event.move == "right":
            high_x -= event.by
        elif event.move == "up":
            low_y += event.by
        elif event.move == "down":
            high_y -= event.by
        elif event.move in ("fall", "bounce"):
            low_y = high_y = ground - event.by
        elif event.move == "rise":
            low_y = high_y = ceiling + event.by
    x = float(random.uniform(low_x, max(low_x, high_x)))
    y = float(random.uniform(low_y, max(low_y, high_y)))
    return Thing(kind, colour, radius, x, y, event)


def _pair(
    random: np.random.Generator,
    mover: tuple[Kind, Colour, float],
    target: tuple[Kind, Colour, float],
    start: float,
    width: float,
    height: float,
    duration: float,
) -> list[Thing] | None:
    """Two shapes, of which one hits, passes through or approaches the other; None where room or time is lacking."""
    start = min(start, round(max(0.0, duration - 1.6), 1))
    towards = 1 if random.random() < 0.5 else -1
    speed = float(random.uniform(0.35, 0.6))
    reach_mover = mover[2] * extent(mover[0])[2]
    reach_target = target[2] * extent(target[0])[2]
    gap = float(random.uniform(0.25, 0.6))
    y = float(random.uniform(max(mover[2], target[2]) + _MARGIN, height - max(mover[2], target[2]) - _MARGIN))
    move: Move = ("hit", "pass", "approach")[int(random.choice(3, p=[0.4, 0.35, 0.25]))]
    apart = gap + reach_mover + reach_target
    after = float(random.uniform(0.2, 0.45))
    contact = start + gap / speed
    if move == "hit":
        by, end = gap, contact
        length = apart + after + reach_target
    elif move == "pass":
        by = apart + reach_mover + reach_target + 0.08
        end, length = start + by / speed, by + reach_mover
    else:
        by, end = gap, contact
        length = apart + reach_target
    if move == "approach":
        seen = float(random.uniform(0.55, 0.8))
        start = round(duration - seen * gap / speed, 1)
        end = start + gap / speed
        if start < 0.0 or duration - start < 0.6:
            return None
    elif end > duration or (move == "hit" and contact + 0.5 > duration):
        return None
    room = width - reach_mover - length - 2 * _MARGIN
    if room <= 0:
        return None
    first = reach_mover + _MARGIN + float(random.uniform(0.0, room))
    x = first if towards > 0 else width - first
    pushed = None
    if move == "hit":
        pushed = Event("pushed", contact, contact + after / speed, after, towards)
    event = Event(move, start, round(end, 2), by, towards, other=1)
    return [
        Thing(*mover, x, y, event),
        Thing(*target, x + towards * apart, y, pushed),
    ]


def _overlap(things: list[Thing], duration: float) -> bool:
    """Whether two shapes overlap at some time, but for the two of an event between them; or one leaves the picture."""
    times = np.linspace(0.0, duration, max(2, int(duration * 8)))
    boxes = [one.boxes(times) for one in things]
    for first in range(len(things)):
        for second in range(first + 1, len(things)):
            event = things[first].event
            if event is not None and event.other == second:
                continue
            one, other = boxes[first], boxes[second]
            apart = (
                (one[:, 0] > other[:, 2] + _MARGIN)
                | (other[:, 0] > one[:, 2] + _MARGIN)
                | (one[:, 1] > other[:, 3] + _MARGIN)
                | (other[:, 1] > one[:, 3] + _MARGIN)
            )
            if not apart.all():
                return True
    return False
