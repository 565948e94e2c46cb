"""What Cosmos says in its own units, also in those of the file: pixels, seconds, mm:ss.ff."""

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from cosmos_batch.contract.tasks import AXIS

_TIME = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-5]?[0-9](?:\.[0-9]{1,6})?)")
_BOX, _POINT, _TIMES = ("bbox_2d", "box_2d"), ("point_2d",), ("start", "end")

_LONGEST = 10**7  # seconds; what is said beyond is no time of a video

Size = tuple[int, int]


def seconds_of(time: str) -> float | None:
    """Of `mm:ss.ff`, with or without hours and fractions; None for anything else."""
    found = _TIME.fullmatch(time.strip())
    if found is None:
        return None
    hours, minutes, seconds = found.groups()
    return round(int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds), 6)


def time_of(seconds: float) -> str:
    """As `mm:ss.ff`; an hour is sixty minutes."""
    hundredths = round(seconds * 100)
    return f"{hundredths // 6000:02}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def pixels_of(coordinates: list[float], size: Size) -> list[int]:
    """Of x and y in turn, each in thousandths of its axis; what lies outside of the picture is moved to its edge."""
    return [
        round(min(max(coordinate, 0), AXIS) / AXIS * size[number % 2]) for number, coordinate in enumerate(coordinates)
    ]


def has_places(data: Any) -> bool:
    """Whether there is a box or a point in it, for which the size of the picture is needed."""
    if isinstance(data, list):
        return any(has_places(one) for one in data)
    return isinstance(data, dict) and (
        any(name in data for name in (*_BOX, *_POINT)) or any(has_places(value) for value in data.values())
    )


def with_units(data: Any, size: Size | None) -> Any:
    """The data with `bbox_pixels`, `point_pixels`, `start_seconds`, `start_time` and so on beside what is there."""
    if isinstance(data, list):
        return [with_units(one, size) for one in data]
    if not isinstance(data, dict):
        return data
    found = {name: with_units(value, size) for name, value in data.items()}
    for names, count, said in ((_BOX, 4, "bbox_pixels"), (_POINT, 2, "point_pixels")):
        for name in names:
            if size is not None and _are_coordinates(found.get(name), count):
                found.setdefault(said, pixels_of(found[name], size))
    for name in _TIMES:
        _add_time(found, name)
    return found


def times_in(data: Any) -> Iterator[float]:
    """The seconds of each `start` and `end` in it, also of those in mm:ss.ff."""
    if isinstance(data, list):
        for one in data:
            yield from times_in(one)
    elif isinstance(data, dict):
        for name, value in data.items():
            seconds = seconds_of(value) if isinstance(value, str) else value
            if name in _TIMES and _is_number(seconds):
                yield seconds
            elif name not in _TIMES:
                yield from times_in(value)


def _add_time(event: dict[str, Any], name: str) -> None:
    value = event.get(name)
    if _is_number(value) and 0 <= value <= _LONGEST:
        event.setdefault(f"{name}_time", time_of(value))
    elif isinstance(value, str) and (seconds := seconds_of(value)) is not None:
        event.setdefault(f"{name}_seconds", seconds)


def _are_coordinates(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
