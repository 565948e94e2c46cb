"""How many workers, and when to stop trying: the arithmetic of `scale`, without a call to anything."""

import math
from datetime import datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
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


def workers_to_start(wanted: int, live: int, serving: int, breaker: PipelineRow, now: datetime) -> int:
    """The difference, unless workers have failed lately: then none before its time, and one at a time.

    `serving` of the `live` ones have brought a job to its end; the others have yet to show that they can.
    """
    if not may_start(breaker, now):
        return 0
    room = wanted if breaker.failures == 0 else min(wanted, serving + 1)
    return max(0, room - live)


def may_start(breaker: PipelineRow, now: datetime) -> bool:
    """Whether the pause after a failure is over; of an open breaker: whether it is half-open."""
    return breaker.retry_at is None or now >= datetime.fromisoformat(breaker.retry_at)


def judged(
    breaker: PipelineRow, served: bool, failures: list[Error], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """The breaker after what was learnt: whether some worker served for the first time, and which ones failed.

    Only a job brought to its end closes it. A loaded model does not: an engine that dies on the first job of every
    worker would start workers for ever. And a worker counts as proof once: an old one that goes on serving says
    nothing of those that cannot start beside it.
    """
    if served:
        breaker = breaker.model_copy(update={"failures": 0, "retry_at": None, "open": False, "reason": None})
    if not failures:
        return breaker
    count = breaker.failures + len(failures)
    is_open = count >= settings.breaker_failures
    pause = settings.breaker_delay_seconds * 2 ** (count - 1)
    if is_open:
        pause = settings.breaker_probe_seconds
    retry_at = (now + timedelta(seconds=min(pause, settings.breaker_probe_seconds))).isoformat()
    return breaker.model_copy(update={"failures": count, "retry_at": retry_at, "open": is_open, "reason": failures[-1]})


def _or(measured: float | None, first: float) -> float:
    return first if measured is None else measured
