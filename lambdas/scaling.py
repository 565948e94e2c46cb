"""How many workers: the arithmetic of `scale`, without a call to AWS."""

import math
from dataclasses import dataclass

from cosmos_batch.state import PipelineRow

# Until a pipeline's first worker has measured them: an L40S with a 2B model, one clip at a time, and a start with an
# instance launch and an image pull.
FIRST_SECONDS_PER_ITEM = 5.0
FIRST_COLD_START_SECONDS = 600.0


def wanted_workers(backlog: int, live: int, pace: PipelineRow, target_drain_seconds: float, most: int) -> int:
    """So many that the backlog is gone in time, at least one where there is work, at most one an item and what may run.

    No worker is added whose cold start would last as long as the live ones need for all the work.

    >>> pace = PipelineRow(seconds_per_item=10, cold_start_seconds=100)
    >>> wanted_workers(200, 0, pace, target_drain_seconds=600, most=8)
    4
    >>> wanted_workers(20, 2, pace, target_drain_seconds=60, most=8)
    2
    """
    if backlog <= 0:
        return 0
    seconds = backlog * _or(pace.seconds_per_item, FIRST_SECONDS_PER_ITEM)
    wanted = min(max(1, math.ceil(seconds / target_drain_seconds)), backlog, most)
    if live and _or(pace.cold_start_seconds, FIRST_COLD_START_SECONDS) >= seconds / live:
        return min(wanted, live)
    return wanted


def retiring(aging: int, ready: int, wanted: int, room: int) -> int:
    """How many workers past their life leave now: those whose place a `ready` younger one has taken.

    Where there is no room for a replacement beside them, one of them goes first.

    >>> retiring(aging=2, ready=1, wanted=2, room=5)
    1
    >>> retiring(aging=2, ready=0, wanted=2, room=0)
    1
    """
    replaced = aging - max(0, wanted - ready)
    return min(aging, max(replaced, 1 if room == 0 else 0))


@dataclass(frozen=True)
class Share:
    """What a pipeline holds and wants of the vCPUs that all of them share."""

    priority: int
    vcpus: int
    running: int
    wanted: int
    leaving: int = 0  # of the running ones

    @property
    def unmet_vcpus(self) -> int:
        """Of the workers that it wants and does not have."""
        return max(0, self.wanted - self.running) * self.vcpus


def shared_room(total_vcpus: int, own: Share, others: list[Share]) -> int:
    """How many more workers of its own a pipeline may start within the total, less what higher ones still want.

    >>> high, low = Share(1, 12, running=0, wanted=2), Share(0, 12, running=1, wanted=4)
    >>> shared_room(48, low, [high])
    1
    """
    free = total_vcpus - sum(one.running * one.vcpus for one in [own, *others])
    reserved = sum(one.unmet_vcpus for one in others if one.priority > own.priority)
    return max(0, free - reserved) // own.vcpus


def to_take_back(total_vcpus: int, own: Share, others: list[Share]) -> list[int]:
    """How many workers of each of the `others` must leave so that `own` gets what it wants: of the lowest first.

    >>> own, low = Share(1, 12, running=0, wanted=2), Share(0, 12, running=2, wanted=2)
    >>> to_take_back(48, own, [Share(-1, 12, running=2, wanted=2, leaving=1), low])
    [1, 0]
    """
    counts = [0] * len(others)
    if own.unmet_vcpus == 0:
        return counts
    free = total_vcpus - sum(one.running * one.vcpus for one in [own, *others])
    lacking = own.unmet_vcpus - free - sum(one.leaving * one.vcpus for one in others)
    for index, one in sorted(enumerate(others), key=lambda place: place[1].priority):
        if one.priority < own.priority and lacking > 0:
            counts[index] = min(one.running - one.leaving, math.ceil(lacking / one.vcpus))
            lacking -= counts[index] * one.vcpus
    return counts


def _or(measured: float | None, first: float) -> float:
    return first if measured is None else measured
