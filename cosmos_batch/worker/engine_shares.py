"""Divides the engine's time among the jobs that are in it at the same time."""

import time


class EngineShares:
    """A clock that runs at the speed 1/n while n jobs are in the engine.

    The time that it shows between a job's entry and its end is the job's share. The shares of all jobs add up to the
    time during which the engine was busy.
    """

    def __init__(self) -> None:
        self._jobs = 0
        self._shown = 0.0
        self._since = time.monotonic()

    def enter(self) -> float:
        """Count a job as in the engine from now on, and return the clock's time, which `leave` takes."""
        self._advance()
        self._jobs += 1
        return self._shown

    def leave(self, entered: float) -> float:
        """Count a job as out of the engine, and return its share in seconds; `entered` is what `enter` returned."""
        self._advance()
        self._jobs -= 1
        return self._shown - entered

    def _advance(self) -> None:
        now = time.monotonic()
        if self._jobs:
            self._shown += (now - self._since) / self._jobs
        self._since = now
