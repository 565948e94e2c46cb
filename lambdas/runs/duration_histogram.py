"""Count durations in buckets, each 5 % longer than the one before, so that the counts of shards can be added up.

A quantile of a million items is then known to 2.5 %, without any list of all of them.
"""

import math
from collections.abc import Mapping

STEP = math.log(1.05)
SHORTEST = 0.001  # seconds
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def class_of(seconds: float) -> str:
    """Return the class of a duration, as a key of a row's map."""
    return str(round(math.log(max(seconds, SHORTEST)) / STEP))


def added(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of two sets of items together."""
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def quantiles(counts: Mapping[str, int]) -> dict[str, float]:
    """Return p50, p90, p99 and max in seconds; nothing if no duration was counted."""
    total = sum(counts.values())
    if not total:
        return {}
    return {name: _quantile(counts, math.ceil(share * total)) for name, share in QUANTILES.items()}


def _quantile(counts: Mapping[str, int], rank: int) -> float:
    counted = 0
    for name in sorted(counts, key=int):
        counted += counts[name]
        if counted >= rank:
            return round(math.exp(int(name) * STEP), 3)
    raise AssertionError("the rank is at most the number of all")
