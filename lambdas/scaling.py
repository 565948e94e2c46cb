"""How many workers, and when to stop trying: the arithmetic of `scale`, without a call to anything."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import PipelineRow

# Until a pipeline's first worker has measured them: an L40S with a 2B model, one clip at a time, and a start with an
# instance launch and an image pull.
FIRST_SECONDS_PER_ITEM = 5.0
FIRST_COLD_START_SECONDS = 600.0

# A death in company is cheap: what it killed runs alone next. So many of them weigh as one failure.
COMPANY_DEATHS_PER_FAILURE = 3


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


def workers_to_start(wanted: int, live: int, serving: int, breaker: PipelineRow, now: datetime) -> int:
    """The difference, unless workers have failed lately: then none before its time, and one at a time.

    `serving` of the `live` ones have brought a job to its end; the others have yet to show that they can.
    """
    if not may_start(breaker, now):
        return 0
    room = wanted if breaker.failures == 0 and not breaker.open else min(wanted, serving + 1)
    return max(0, room - live)


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


def may_start(breaker: PipelineRow, now: datetime) -> bool:
    """Whether the pause after a failure is over; of an open breaker: whether it is half-open."""
    return breaker.retry_at is None or now >= datetime.fromisoformat(breaker.retry_at)


@dataclass(frozen=True)
class Death:
    """The end of a worker that had answered nothing: why, and with which jobs in its engine."""

    error: Error
    alone_with: str | None = None
    in_company: bool = False

    def counts(self, culprits: list[str]) -> bool:
        """Whether it is the breaker's account, and not that of jobs."""
        if self.alone_with is not None:
            return self.alone_with not in culprits
        return not self.in_company

    def is_of_company(self) -> bool:
        """Whether one of several jobs may be to blame, and nobody knows which."""
        return self.alone_with is None and self.in_company


def judged(
    breaker: PipelineRow, served: bool, deaths: list[Death], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """The breaker after what was learnt: whether some worker served for the first time, and which ones failed.

    Only a job brought to its end closes it. A loaded model does not: an engine that dies on the first job of every
    worker would start workers for ever. And a worker counts as proof once: an old one that goes on serving says
    nothing of those that cannot start beside it.

    A worker that died with no job begun counts, whether it had loaded its model or not. One that had begun jobs died of
    one: that is the job's account, and after so many deaths of its own it fails. So a death in company does not count
    here (each of the company runs alone next), and each job that kills an engine alone counts once: one poison is one
    failure, an engine that dies of every job is soon many. Where new jobs keep coming, company may never run out: so
    many deaths in company without any answer open the breaker too.
    """
    if served:
        breaker = PipelineRow(seconds_per_item=breaker.seconds_per_item, cold_start_seconds=breaker.cold_start_seconds)
    counted = [death for death in deaths if death.counts(breaker.culprits)]
    in_company = [death for death in deaths if death.is_of_company()]
    if not counted and not in_company:
        return breaker
    count = breaker.failures + len(counted)
    company_deaths = breaker.company_deaths + len(in_company)
    too_many = company_deaths > settings.breaker_failures * COMPANY_DEATHS_PER_FAILURE
    opens = bool(counted and (breaker.open or count >= settings.breaker_failures)) or bool(in_company and too_many)
    retry_at = breaker.retry_at
    if opens:
        retry_at = _after(now, settings.breaker_probe_seconds)
    elif any(death.alone_with is None for death in counted):
        # What cannot start now may be able to in a while. A job that kills engines gets no better, and others wait.
        retry_at = _after(now, min(settings.breaker_delay_seconds * 2 ** (count - 1), settings.breaker_probe_seconds))
    return breaker.model_copy(
        update={
            "failures": count,
            "company_deaths": company_deaths,
            "retry_at": retry_at,
            "open": breaker.open or opens,
            "reason": breaker.reason if not counted and not opens else (counted or in_company)[-1].error,
            "culprits": [*breaker.culprits, *(death.alone_with for death in counted if death.alone_with is not None)],
        }
    )


def _after(now: datetime, seconds: float) -> str:
    return (now + timedelta(seconds=seconds)).isoformat()


def _or(measured: float | None, first: float) -> float:
    return first if measured is None else measured
