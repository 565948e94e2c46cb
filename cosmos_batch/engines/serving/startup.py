"""How long each part of the start of vLLM's server took, by what it says; of releases 0.19 to 0.32.

What it does not say, or says in other words, is in the rest.
"""

import re
from collections.abc import Iterable

_NUMBER = r"(\d+(?:\.\d+)?)"
_NOTED = re.compile(rf"^\s*{_NUMBER} s  ")  # as a journal notes a line
# The engine's process is there, with all that it imports.
_IMPORTED = re.compile(r"Initializing a V1 LLM engine")
_WEIGHTS = re.compile(rf"(?:Model loading|Loading weights) took .*?{_NUMBER} seconds")
_INIT = re.compile(rf"init engine \(.*?\) took {_NUMBER} s(?:econds)?\b(?: \(compilation: {_NUMBER} s)?")
_COMPILED = re.compile(rf"torch\.compile (?:takes|.*?took) {_NUMBER} s in total")
_GRAPHS = re.compile(rf"Graph capturing finished in {_NUMBER} secs")

_TELLING = (_IMPORTED, _WEIGHTS, _INIT, _COMPILED, _GRAPHS)

Phases = dict[str, float]


def tells(line: str) -> bool:
    """Whether a line is one of those that `phases` looks for."""
    return any(pattern.search(line) for pattern in _TELLING)


def has_weights(lines: Iterable[str]) -> bool:
    """Whether a server that said so far has loaded its weights."""
    return any(_WEIGHTS.search(line) for line in lines)


def phases(lines: Iterable[str], total: float) -> Phases:
    """Seconds of each phase of a start that took `total`; together they are all of it.

    Parameters
    ----------
    lines
        As a journal that began with the start has them.
    """
    text = list(lines)
    found = {
        "imports": _first(_IMPORTED, text),
        "weights": _longest(_WEIGHTS, text),
        "compile": _longest(_INIT, text, group=2) or _longest(_COMPILED, text),
        "graphs": _longest(_GRAPHS, text),
    }
    init = _longest(_INIT, text)
    found["warmup"] = max(0.0, init - found["compile"] - found["graphs"])
    found["rest"] = max(0.0, total - sum(found.values()))
    return {name: round(seconds, 2) for name, seconds in found.items()}


def _first(pattern: re.Pattern[str], lines: list[str]) -> float:
    """When a line was noted."""
    for line in lines:
        if pattern.search(line) and (noted := _NOTED.match(line)):
            return float(noted[1])
    return 0.0


def _longest(pattern: re.Pattern[str], lines: list[str], group: int = 1) -> float:
    """Of the processes that share a model, each says its own; they work at the same time."""
    return max((float(found[group] or 0) for line in lines if (found := pattern.search(line))), default=0.0)
