"""Boxes, points and events, read out of a reasoner's answer.

The forms are those that NVIDIA's prompt guides ask the models for (`cosmos_batch/contract/tasks.py`): `bbox_2d` and
`point_2d` in thousandths of the picture, `start` and `end` in seconds or as mm:ss.ff. An answer comes from a model, so
whatever does not have such a form is passed over.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from cosmos_batch.contract.tasks import AXIS
from cosmos_batch.planning.answer_units import seconds_of

_BOX_KEYS, _POINT_KEYS = ("bbox_2d", "box_2d"), ("point_2d",)
_LABEL_KEYS = ("label", "category", "caption", "subject_id")
_TIME_KEYS = ("time", "timestamp")
_FENCE = re.compile(r"```\w*[ \t]*\n(.*?)```", re.DOTALL)
_DEPTH_LIMIT = 32  # levels of nesting that are looked into
_MARKS_LIMIT = 500  # the most marks of each kind; more would hide the picture


@dataclass(frozen=True)
class TimeSpan:
    """A part of a clip, in seconds from its first frame."""

    start: float
    end: float

    def holds(self, seconds: float, tolerance: float) -> bool:
        """Return whether a time lies in the span, or at most `tolerance` seconds beside it."""
        return self.start - tolerance <= seconds <= self.end + tolerance


@dataclass(frozen=True)
class Box:
    """A rectangle: left, top, right and bottom as shares (0 to 1) of the upright picture.

    `span` is when it holds; None where the answer does not say so.
    """

    left: float
    top: float
    right: float
    bottom: float
    label: str
    span: TimeSpan | None = None


@dataclass(frozen=True)
class Point:
    """A place: x and y as shares (0 to 1) of the upright picture. `span` is as in `Box`."""

    x: float
    y: float
    label: str
    span: TimeSpan | None = None


@dataclass(frozen=True)
class Event:
    """Something that happens in a part of a clip."""

    span: TimeSpan
    caption: str


@dataclass(frozen=True)
class Marks:
    """All that can be drawn of an answer, in the answer's order."""

    boxes: tuple[Box, ...] = ()
    points: tuple[Point, ...] = ()
    events: tuple[Event, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.boxes or self.points or self.events)

    def __add__(self, other: "Marks") -> "Marks":
        return Marks(self.boxes + other.boxes, self.points + other.points, self.events + other.events)

    @property
    def text(self) -> str:
        """Return all labels and captions, a line each."""
        boxes, points = [box.label for box in self.boxes], [point.label for point in self.points]
        return "\n".join([*boxes, *points, *(event.caption for event in self.events)])

    def at(self, seconds: float, tolerance: float = 0.0) -> "Marks":
        """Return the marks that hold at a time of the clip; boxes and points without a time hold always."""
        return Marks(
            tuple(box for box in self.boxes if box.span is None or box.span.holds(seconds, tolerance)),
            tuple(point for point in self.points if point.span is None or point.span.holds(seconds, tolerance)),
            tuple(event for event in self.events if event.span.holds(seconds, tolerance)),
        )

    def with_boxes_at(self, seconds: float) -> "Marks":
        """Return the same marks, with boxes that hold at one moment of the clip alone."""
        moment = TimeSpan(seconds, seconds)
        return replace(self, boxes=tuple(replace(box, span=moment) for box in self.boxes))


def marks_of_answer(data: Any, text: str) -> Marks:
    """Read the marks of an answer: of its parsed `data`, or, where there is none, of the JSON in its text."""
    values = [data] if data is not None else list(_json_in(text))
    boxes: list[Box] = []
    points: list[Point] = []
    events: list[Event] = []
    for value in values:
        for item in _objects(value, 0):
            span = _span(item)
            box, point = _box(item, span), _point(item, span)
            if box is not None:
                boxes.append(box)
            if point is not None:
                points.append(point)
            if box is None and point is None and span is not None and span.end > span.start:
                events.append(Event(span, _label(item)))
    return Marks(tuple(boxes[:_MARKS_LIMIT]), tuple(points[:_MARKS_LIMIT]), tuple(events[:_MARKS_LIMIT]))


def _json_in(text: str) -> Iterator[Any]:
    """Yield the whole text as JSON, or else each fenced block that is JSON."""
    for part in (text, *_FENCE.findall(text)):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
        if part is text:
            return


def _objects(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Yield every JSON object within a value, the outer ones first."""
    if depth > _DEPTH_LIMIT:
        return
    if isinstance(value, dict):
        yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from _objects(child, depth + 1)


def _box(item: dict[str, Any], span: TimeSpan | None) -> Box | None:
    sides = next((_shares(item[key], 4) for key in _BOX_KEYS if key in item), None)
    if sides is None:
        return None
    left, right = sorted((sides[0], sides[2]))
    top, bottom = sorted((sides[1], sides[3]))
    return Box(left, top, right, bottom, _label(item), span)


def _point(item: dict[str, Any], span: TimeSpan | None) -> Point | None:
    place = next((_shares(item[key], 2) for key in _POINT_KEYS if key in item), None)
    return None if place is None else Point(place[0], place[1], _label(item), span)


def _shares(value: Any, count: int) -> list[float] | None:
    """Return coordinates in thousandths as shares of the picture; what lies outside of it is moved to its edge."""
    if not isinstance(value, list) or len(value) != count or not all(is_number(number) for number in value):
        return None
    return [min(max(number, 0), AXIS) / AXIS for number in value]


def _span(item: dict[str, Any]) -> TimeSpan | None:
    start, end = (_seconds(item.get(key)) for key in ("start", "end"))
    if start is not None and end is not None:
        return TimeSpan(min(start, end), max(start, end))
    moment = next((seconds for key in _TIME_KEYS if (seconds := _seconds(item.get(key))) is not None), start)
    return None if moment is None else TimeSpan(moment, moment)


def _seconds(value: Any) -> float | None:
    """Return a time in seconds that is given as a number or as mm:ss.ff; None for anything else."""
    if is_number(value):
        return float(value) if value >= 0 else None
    return seconds_of(value) if isinstance(value, str) else None


def _label(item: dict[str, Any]) -> str:
    return next((str(item[key]) for key in _LABEL_KEYS if isinstance(item.get(key), str | int)), "")


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value of JSON is a number that a float can hold."""
    # An integer of JSON may be greater than any float, which `math.isfinite` cannot take.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
