"""Messages for the person at the terminal. They go to standard error: standard output is for results only."""

import sys
from enum import IntEnum


class Verbosity(IntEnum):
    """The levels of what a command prints beside its results and errors."""

    QUIET = 0  # nothing
    NORMAL = 1  # what happens
    VERBOSE = 2  # and where its logs are, and the traceback of an error


_verbosity = Verbosity.NORMAL


def set_verbosity(verbosity: Verbosity) -> None:
    """Set how much this process prints from now on."""
    global _verbosity
    _verbosity = verbosity


def verbosity() -> Verbosity:
    """Return how much this process prints."""
    return _verbosity


def inform(text: str) -> None:
    """Print what happens, unless the person asked for quiet."""
    if _verbosity >= Verbosity.NORMAL:
        print(text, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print what the person has to know, however quiet the command is."""
    print(text, file=sys.stderr, flush=True)


def detail(text: str) -> None:
    """Print what helps to find the cause of a problem, if the person asked for it with --verbose."""
    if _verbosity >= Verbosity.VERBOSE:
        print(text, file=sys.stderr, flush=True)
