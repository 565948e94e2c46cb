"""Convert the units of Cosmos's answers, thousandths of a picture and `mm:ss.ff`, to pixels and seconds."""

import re
from collections.abc import Iterator
from typing import Any, TypeGuard

from cosmos_batch.contract.tasks import AXIS

_TIME = re.compile(r"(?:([0-9]{1,4}):)?([0-9]{1,4}):([0-5]?[0-9](?:\.[0-9]{1,6})?)")
_BOX_FIELDS, _POINT_FIELDS, _TIME_FIELDS = ("bbox_2d", "box_2d"), ("point_2d",), ("start", "end")

_LONGEST = 10**7  # seconds; a larger number is no time of a video


def seconds_of(time: str) -> float | None:
    """Return the seconds of `mm:ss.ff`, with or without hours and fractions; None for any other text."""
    match = _TIME.fullmatch(time.strip())
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    return round(int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds), 6)


def time_of(seconds: float) -> str:
    """Return seconds as `mm:ss.ff`; an hour is written as 60 minutes."""
    hundredths = round(seconds * 100)
    return f"{hundredths // 6000:02}:{hundredths // 100 % 60:02}.{hundredths % 100:02}"


def pixels_of(coordinates: list[float], size: tuple[int, int]) -> list[int]:
    """Return alternating x and y coordinates in thousandths as pixels; those outside of the picture are clamped."""
    return [
        round(min(max(coordinate, 0), AXIS) / AXIS * size[number % 2]) for number, coordinate in enumerate(coordinates)
    ]


def has_places(data: Any) -> bool:
    """Return whether the data holds a box or a point, whose conversion needs the picture's size."""
    if isinstance(data, list):
        return any(has_places(item) for item in data)
    return isinstance(data, dict) and (
        any(name in data for name in (*_BOX_FIELDS, *_POINT_FIELDS)) or any(has_places(item) for item in data.values())
    )


def with_units(data: Any, size: tuple[int, int] | None) -> Any:
    """Return the data with `bbox_pixels`, `point_pixels`, `start_seconds`, `start_time` and so on added.

    Without a size, places are not converted.
    """
    if isinstance(data, list):
        return [with_units(item, size) for item in data]
    if not isinstance(data, dict):
        return data
    converted = {name: with_units(value, size) for name, value in data.items()}
    for fields, count, target in ((_BOX_FIELDS, 4, "bbox_pixels"), (_POINT_FIELDS, 2, "point_pixels")):
        for name in fields:
            if size is not None and _are_coordinates(converted.get(name), count):
                converted.setdefault(target, pixels_of(converted[name], size))
    for name in _TIME_FIELDS:
        _add_time(converted, name)
    return converted


def times_in(data: Any) -> Iterator[float]:
    """Yield the seconds of each `start` and `end` in the data, which may be numbers or `mm:ss.ff`."""
    if isinstance(data, list):
        for item in data:
            yield from times_in(item)
    elif isinstance(data, dict):
        for name, value in data.items():
            seconds = seconds_of(value) if isinstance(value, str) else value
            if name in _TIME_FIELDS and _is_number(seconds):
                yield seconds
            elif name not in _TIME_FIELDS:
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
