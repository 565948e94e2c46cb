"""Read how long each phase of vLLM's start took from the lines that its releases 0.19 to 0.32 print."""

import re
from collections.abc import Iterable

from cosmos_batch.engines.serving.dialect import Phases

_NUMBER = r"(\d+(?:\.\d+)?)"
_TIME_OF_LINE = re.compile(rf"^\s*{_NUMBER} s  ")  # how a `Journal` begins its lines
_IMPORTED = re.compile(r"Initializing a V1 LLM engine")  # the engine's process runs and has imported its libraries
WEIGHTS = re.compile(rf"(?:Model loading|Loading weights) took .*?{_NUMBER} seconds")
_INIT = re.compile(rf"init engine \(.*?\) took {_NUMBER} s(?:econds)?\b(?: \(compilation: {_NUMBER} s)?")
_COMPILED = re.compile(rf"torch\.compile (?:takes|.*?took) {_NUMBER} s in total")
_GRAPHS = re.compile(rf"Graph capturing finished in {_NUMBER} secs")


def reports_phase(line: str) -> bool:
    """Return whether `start_phases` reads this line."""
    return any(pattern.search(line) for pattern in (_IMPORTED, WEIGHTS, _INIT, _COMPILED, _GRAPHS))


def start_phases(lines: Iterable[str], total: float) -> Phases:
    """Return the seconds of each phase of a start that took `total` seconds; together they are all of it.

    What a release does not print, or words otherwise, is in `rest`.

    Parameters
    ----------
    lines
        Those of a `Journal` that began with the start.
    """
    text = list(lines)
    seconds = {
        "imports": _time_of_first(_IMPORTED, text),
        "weights": _longest(WEIGHTS, text),
        "compile": _longest(_INIT, text, group=2) or _longest(_COMPILED, text),
        "graphs": _longest(_GRAPHS, text),
    }
    init = _longest(_INIT, text)
    seconds["warmup"] = max(0.0, init - seconds["compile"] - seconds["graphs"])
    seconds["rest"] = max(0.0, total - sum(seconds.values()))
    return {name: round(value, 2) for name, value in seconds.items()}


def _time_of_first(pattern: re.Pattern[str], lines: list[str]) -> float:
    """Return when the first matching line was written, in seconds after the start."""
    for line in lines:
        if pattern.search(line) and (time := _TIME_OF_LINE.match(line)):
            return float(time[1])
    return 0.0


def _longest(pattern: re.Pattern[str], lines: list[str], group: int = 1) -> float:
    """Return the largest number: the processes that share a model work at the same time, and each prints its own."""
    matches = (pattern.search(line) for line in lines)
    return max((float(match[group] or 0) for match in matches if match), default=0.0)
