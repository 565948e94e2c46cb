"""How fast a worker is: what `scale` reckons with."""

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """What the last jobs took.

    Attributes
    ----------
    seconds_per_unit
        Of the worker's time, for a unit of weight (`cosmos_batch.contract.pace`).
    in_flight
        How many jobs were in hand meanwhile, on average.
    """

    seconds_per_unit: float
    in_flight: float


@dataclass(frozen=True)
class _Done:
    stay: float  # seconds in hand
    share: float  # seconds of the worker: while several jobs are in hand, each has its part of the time
    weight: float


class Pace:
    """Measures a worker by the last `window` jobs that it answered.

    With n jobs in hand, each of them is given an nth of the time that passes. So what is measured does not depend on
    when jobs came and went, and a worker that has just begun with a full batch is not taken for a slow one.
    """

    def __init__(self, window: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked_at = clock()
        self._share = 0.0  # of a job that had been in hand from the beginning
        self._in_hand: dict[Hashable, tuple[float, float]] = {}
        self._done: deque[_Done] = deque(maxlen=window)

    def began(self, job: Hashable) -> None:
        """A job is in hand."""
        self._in_hand[job] = (self._now(), self._share)

    def ended(self, job: Hashable, weight: float | None = None) -> None:
        """A job is in hand no more. One that was answered has a weight; the others say nothing of the engine's pace."""
        now = self._now()
        began_at, share = self._in_hand.pop(job)
        if weight is not None:
            self._done.append(_Done(now - began_at, self._share - share, weight))

    def _now(self) -> float:
        now = self._clock()
        if self._in_hand:
            self._share += (now - self._looked_at) / len(self._in_hand)
        self._looked_at = now
        return now

    @property
    def measure(self) -> Measure | None:
        """None until a job has been answered."""
        share = sum(done.share for done in self._done)
        if share <= 0:
            return None
        return Measure(
            seconds_per_unit=share / sum(done.weight for done in self._done),
            in_flight=sum(done.stay for done in self._done) / share,
        )
