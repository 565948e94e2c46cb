"""Scenes drawn by chance from a seed: shapes, their movements, sizes and backgrounds."""

import numpy as np

from cosmos_batch.demo.scenes import (
    BACKGROUNDS,
    BOUNCE_SECONDS,
    COLOURS,
    KINDS,
    Background,
    Colour,
    Move,
    Movement,
    Scene,
    ShapeKind,
    Thing,
    extent,
)

SceneShape = tuple[ShapeKind, Colour, float]
"""A shape's kind, colour and radius."""

_TONES = (
    (235, 235, 235),
    (205, 210, 215),
    (225, 215, 195),
    (190, 205, 225),
    (200, 220, 200),
    (90, 90, 95),
    (60, 65, 85),
)
_CONTRAST = 110  # least distance in RGB of a shape's colour from every tone behind it
_MARGIN = 0.03
_GAP = 0.6  # seconds between the beginnings of two movements
_TRIES = 60


def draw_scene(random: np.random.Generator, width: float, height: float, duration: float) -> Scene:
    """Draw a scene by chance. `duration` 0 gives an image. Shapes overlap only where one passes through another."""
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
_STILL = 0.2  # share of shapes without a movement
_PAIR = 0.36  # share of clips with two shapes or more in which there is an event between two of them


def _place(
    random: np.random.Generator, shapes: list[SceneShape], width: float, height: float, duration: float
) -> list[Thing] | None:
    if duration == 0:
        return [_put(random, shape, None, width, height) for shape in shapes]
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
    """Draw the times at which movements begin: at least `_GAP` apart, and early enough to be seen."""
    latest = duration - 0.8
    slack = latest - _GAP * (count - 1)
    if slack <= 0:
        drawn = np.linspace(0.0, latest, count)
    else:
        drawn = np.sort(random.uniform(0.0, slack, count)) + _GAP * np.arange(count)
        if random.random() < 0.3:
            drawn[0] = 0.0
    return [round(float(value), 1) for value in random.permutation(drawn)]


def _draw_event(
    random: np.random.Generator, shape: SceneShape, start: float, height: float, duration: float
) -> Movement:
    move = _MOVES[int(random.choice(len(_MOVES), p=_CHANCES))]
    # A quarter of the movements go on when the clip ends.
    last = duration + (random.uniform(0.2, 1.0) if random.random() < 0.25 else 0.0)
    if move == "bounce":
        return Movement(move, start, duration + 2 * BOUNCE_SECONDS, float(random.uniform(0.25, 0.5)))
    if move in ("fall", "rise"):
        by = float(random.uniform(0.35, max(0.4, height - 2 * shape[2] - 3 * _MARGIN)))
        end = min(start + float(random.uniform(0.8, 1.4)), last)
        return Movement(move, start, round(max(end, start + 0.7), 1), by)
    speed = float(random.uniform(0.2, 0.55))
    end = round(min(start + float(random.uniform(0.8, 2.5)), last), 1)
    end = max(end, round(start + 0.8, 1))
    by = max(0.22, speed * (end - start))
    return Movement(move, start, end, by, towards=-1 if move == "left" else 1)


def _put(random: np.random.Generator, shape: SceneShape, event: Movement | None, width: float, height: float) -> Thing:
    """Place a shape where its whole movement stays in the picture."""
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
    mover: SceneShape,
    target: SceneShape,
    start: float,
    width: float,
    height: float,
    duration: float,
) -> list[Thing] | None:
    """Draw two shapes, of which one hits, passes through or approaches the other; None without room or time for it."""
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
    if move == "approach":
        seen = float(random.uniform(0.55, 0.8))
        start = round(duration - seen * gap / speed, 1)
    through = apart + reach_mover + reach_target + 0.08
    # The distance that the mover covers, and the space that both need, from where the mover's centre begins.
    by, length = {
        "hit": (gap, apart + after + reach_target),
        "pass": (through, through + reach_mover),
        "approach": (gap, apart + reach_target),
    }[move]
    end = start + by / speed
    if not _has_time(move, start, end, contact, duration):
        return None
    room = width - reach_mover - length - 2 * _MARGIN
    if room <= 0:
        return None
    first = reach_mover + _MARGIN + float(random.uniform(0.0, room))
    x = first if towards > 0 else width - first
    pushed = Movement("pushed", contact, contact + after / speed, after, towards) if move == "hit" else None
    event = Movement(move, start, round(end, 2), by, towards, other=1)
    return [Thing(*mover, x, y, event), Thing(*target, x + towards * apart, y, pushed)]


def _has_time(move: Move, start: float, end: float, contact: float, duration: float) -> bool:
    """Return whether enough of an event between two shapes is seen within the clip."""
    if move == "approach":
        return start >= 0.0 and duration - start >= 0.6
    return end <= duration and (move != "hit" or contact + 0.5 <= duration)


def _overlap(things: list[Thing], duration: float) -> bool:
    """Return whether two shapes overlap at some time. The two shapes of one event may."""
    times = np.linspace(0.0, duration, max(2, int(duration * 8)))
    boxes = [thing.boxes(times) for thing in things]
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
