"""How many workers: the arithmetic of `scale`, without a call to AWS."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from cosmos_batch.contract.environment import PipelineCompute
from cosmos_batch.contract.pace import first_seconds_per_unit, typical_weight
from cosmos_batch.state import PipelineRow

FIRST_COLD_START_SECONDS = 600.0  # an instance launch, an image pull and a load, until a first worker has measured it
SURPLUS_STANDS = timedelta(minutes=3)  # SQS's counts lag a minute behind


def wanted_now(pipeline: PipelineCompute, row: PipelineRow, items: int, live: int, target_drain_seconds: float) -> int:
    """How many workers a pipeline wants, with so many jobs waiting or being done and so many workers live."""
    seconds = backlog_seconds(pipeline, row, items)
    cold_start = FIRST_COLD_START_SECONDS if row.cold_start_seconds is None else row.cold_start_seconds
    wanted = wanted_workers(items, seconds, live, cold_start, target_drain_seconds, pipeline.max_workers)
    return max(wanted, pipeline.warm_workers)


def backlog_seconds(pipeline: PipelineCompute, row: PipelineRow, items: int) -> float:
    """How long one fully loaded worker would take for the backlog.

    SQS says how many jobs there are, the totals in the row what one of them weighs on average.
    """
    known = row.waiting_jobs > 0 and row.waiting_weight > 0
    weight = row.waiting_weight / row.waiting_jobs if known else typical_weight(pipeline.id)
    return items * weight * seconds_per_unit(pipeline, row)


def seconds_per_unit(pipeline: PipelineCompute, row: PipelineRow) -> float:
    """Of a fully loaded worker: as measured, or a first guess for its GPUs."""
    if row.seconds_per_unit is not None:
        return row.seconds_per_unit
    return first_seconds_per_unit(pipeline.id, pipeline.gpu, pipeline.gpus)


def wanted_workers(
    items: int, seconds: float, live: int, cold_start: float, target_drain_seconds: float, most: int
) -> int:
    """So many that the backlog is gone in time, at least one where there is work, at most one an item and what may run.

    No worker is added whose cold start would last as long as the live ones need for all the work.

    >>> wanted_workers(200, seconds=2000, live=0, cold_start=100, target_drain_seconds=600, most=8)
    4
    >>> wanted_workers(20, seconds=200, live=2, cold_start=100, target_drain_seconds=60, most=8)
    2
    """
    if items <= 0:
        return 0
    wanted = min(max(1, math.ceil(seconds / target_drain_seconds)), items, most)
    if live and cold_start >= seconds / live:
        return min(wanted, live)
    return wanted


def totals_of(row: PipelineRow) -> dict[str, float]:
    """Of what waits, as `surplus` keeps them."""
    return {"jobs": row.waiting_jobs, "weight": row.waiting_weight}


def surplus_is_settled(row: PipelineRow, now: datetime) -> bool:
    """Whether the totals of what waits have been other than 0, and the same, for long enough with an empty queue."""
    if row.surplus_since is None or row.surplus != totals_of(row):
        return False
    return now - datetime.fromisoformat(row.surplus_since) >= SURPLUS_STANDS


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
