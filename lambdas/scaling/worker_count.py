"""Compute how many workers a pipeline needs. Nothing here calls AWS."""

import math
from datetime import datetime, timedelta

from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.planning.pace import first_seconds_per_unit, typical_weight
from cosmos_batch.state import PipelineRow

# From SubmitJob to a loaded model, until a first worker has measured it: launch an instance, pull an image, load.
FIRST_COLD_START_SECONDS = 600.0
# The most workers that one invocation of `scale` starts. SubmitJob takes one job a call, and the calls and rows of this
# number fit into the two minutes of `scale`. The next invocation, at most a minute later, starts more: 400 workers are
# submitted within five minutes.
STARTS_AT_ONCE = 80
SURPLUS_DURATION = timedelta(minutes=3)  # longer than the minute by which SQS's counts lag behind
OUTAGE_COUNTS_FOR = timedelta(hours=1)  # after the jobs that wait for a server were to be tried again


def wanted_by_pipeline(
    pipeline: DeployedCompute, row: PipelineRow, jobs: int, live: int, target_drain_seconds: float
) -> int:
    """Return how many workers a pipeline needs for the jobs in its queue, with `live` workers there already."""
    seconds = backlog_seconds(pipeline, row, jobs)
    cold_start = FIRST_COLD_START_SECONDS if row.cold_start_seconds is None else row.cold_start_seconds
    wanted = wanted_workers(jobs, seconds, live, cold_start, target_drain_seconds, pipeline.max_workers)
    return max(wanted, pipeline.warm_workers)


def backlog_seconds(pipeline: DeployedCompute, row: PipelineRow, jobs: int) -> float:
    """Return how many seconds one fully loaded worker would take for the jobs in the queue.

    SQS knows how many jobs there are; the totals in the pipeline's row give the average weight of a job.
    """
    known = row.waiting_jobs > 0 and row.waiting_weight > 0
    weight = row.waiting_weight / row.waiting_jobs if known else typical_weight(pipeline.id)
    return jobs * weight * seconds_per_unit(pipeline, row)


def seconds_per_unit(pipeline: DeployedCompute, row: PipelineRow) -> float:
    """Return a fully loaded worker's seconds for a unit of weight: measured, or a first estimate for its GPUs."""
    if row.seconds_per_unit is not None:
        return row.seconds_per_unit
    return first_seconds_per_unit(pipeline.id, pipeline.gpu, pipeline.gpus)


def wanted_workers(
    jobs: int, seconds: float, live: int, cold_start: float, target_drain_seconds: float, limit: int
) -> int:
    """Return how many workers finish a backlog within `target_drain_seconds`.

    The backlog is `jobs` that one worker would do in `seconds`.

    There is at least one where there is work, and at most one for each job and `limit` in all. None is added to the
    live ones if they will have done all the work before it has started.

    >>> wanted_workers(200, seconds=2000, live=0, cold_start=100, target_drain_seconds=600, limit=8)
    4
    >>> wanted_workers(20, seconds=200, live=2, cold_start=100, target_drain_seconds=60, limit=8)
    2
    """
    if jobs <= 0:
        return 0
    wanted = min(max(1, math.ceil(seconds / target_drain_seconds)), jobs, limit)
    if live and cold_start >= seconds / live:
        return min(wanted, live)
    return wanted


def wanted_in_outage(wanted: int, live: int, server_answers: bool, paused_until: datetime, now: datetime) -> int:
    """Return how many of the wanted workers to have while jobs wait until `paused_until` for a server that is away.

    None is added before then. After it, one worker finds out whether the server is back, and the others follow once
    the server has answered a live worker (`server_answers`); jobs that need no server say nothing about it. If no
    other worker leaves for the outage, they follow after `OUTAGE_COUNTS_FOR`: perhaps no job needs the server any more.
    """
    if now < paused_until:
        return min(wanted, live)
    return wanted if server_answers or now - paused_until >= OUTAGE_COUNTS_FOR else min(wanted, max(1, live))


def totals_of(row: PipelineRow) -> dict[str, float]:
    """Return the number and the weight of the waiting jobs, in the form of the row's `surplus`."""
    return {"jobs": row.waiting_jobs, "weight": row.waiting_weight}


def surplus_has_lasted(row: PipelineRow, now: datetime) -> bool:
    """Return whether the totals have been above 0 and unchanged for `SURPLUS_DURATION` while the queue was empty."""
    if row.surplus_since is None or row.surplus != totals_of(row):
        return False
    return now - datetime.fromisoformat(row.surplus_since) >= SURPLUS_DURATION


def workers_to_retire(aging: int, ready: int, wanted: int, room: int) -> int:
    """Return how many of the workers past their life drain now: those whose replacements are ready.

    `ready` counts younger workers with a loaded model. Without `room` for a replacement beside it, one worker drains
    first.

    >>> workers_to_retire(aging=2, ready=1, wanted=2, room=5)
    1
    >>> workers_to_retire(aging=2, ready=0, wanted=2, room=0)
    1
    """
    replaced = aging - max(0, wanted - ready)
    return min(aging, max(replaced, 1 if room == 0 else 0))
