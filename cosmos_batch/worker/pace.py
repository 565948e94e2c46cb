"""Measures how fast a worker does its jobs; `scale` computes the number of workers from it (decision 071)."""

import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """The pace of a worker over its last jobs.

    Attributes
    ----------
    seconds_per_unit
        Seconds of the worker for a unit of weight (`cosmos_batch.planning.pace`).
    in_flight
        Average number of jobs in hand during that time.
    """

    seconds_per_unit: float
    in_flight: float


@dataclass(frozen=True)
class _Done:
    stay: float  # seconds for which the job was in hand
    share: float  # seconds of the worker that the job used; n jobs in hand use an nth of the time each
    weight: float


class PaceMeter:
    """Measures a worker by the last `window` jobs that it answered.

    While n jobs are in hand, each of them is charged an nth of the time. So the result does not depend on when jobs
    came and went, and a worker that has just started with a full batch does not seem slow.
    """

    def __init__(self, window: int = 64, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._updated_at = clock()
        self._share = 0.0  # seconds charged to a job that was in hand from the beginning
        self._in_hand: dict[Hashable, tuple[float, float]] = {}
        self._done: deque[_Done] = deque(maxlen=window)

    def began(self, job: Hashable) -> None:
        """Note that a job is in hand now."""
        self._in_hand[job] = (self._now(), self._share)

    def ended(self, job: Hashable, weight: float | None = None) -> None:
        """Note that a job is no longer in hand. Only jobs with a weight, those that were answered, are measured."""
        now = self._now()
        began_at, share = self._in_hand.pop(job)
        if weight is not None:
            self._done.append(_Done(now - began_at, self._share - share, weight))

    def _now(self) -> float:
        now = self._clock()
        if self._in_hand:
            self._share += (now - self._updated_at) / len(self._in_hand)
        self._updated_at = now
        return now

    @property
    def measure(self) -> Pace | None:
        """Return the measured pace; None until a job has been answered."""
        share = sum(done.share for done in self._done)
        if share <= 0:
            return None
        return Pace(
            seconds_per_unit=share / sum(done.weight for done in self._done),
            in_flight=sum(done.stay for done in self._done) / share,
        )
