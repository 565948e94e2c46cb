"""`scale`: as many workers as the queue wants, and none for what cannot start.

It reads the nudge queue, a FIFO queue with the pipeline as its group: one `scale` at a time looks at a pipeline, so
nothing here needs a lock. In it stand the nudges of `plan`, the events of workers' ends from Batch, and one nudge a
minute of the sweep, which comes to this function directly.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from cosmos_batch.contract import metrics
from cosmos_batch.contract.environment import PipelineCompute, ScaleEnvironment
from cosmos_batch.state import PipelineRow, Workers
from lambdas.clients import client, state_table
from lambdas.deployed_pipelines import read_pipelines
from lambdas.log import log, log_fault
from lambdas.metrics import measure
from lambdas.reporting.refusal import refuse_queue
from lambdas.scaling.breaker import Death, judged, may_start, of_deployment, workers_to_start
from lambdas.scaling.fleet import Fleet, Worker
from lambdas.scaling.nudges import nudge_to_look
from lambdas.scaling.stuck_workers import give_up_stuck
from lambdas.scaling.vcpu_shares import allowed_to_start
from lambdas.scaling.worker_count import retiring, seconds_per_unit, surplus_is_settled, totals_of, wanted_now
from lambdas.sqs_batches import Record, failed

# All that will have to be done: waiting, being done, and not yet to be seen.
_COUNTS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)


@cache
def environment() -> ScaleEnvironment:
    """Of this function."""
    return ScaleEnvironment.read()


def deployed_pipelines() -> list[PipelineCompute]:
    """The workers of all enabled pipelines, smallest model first.

    They are read at each call: a deployment changes the revision of a job definition in the parameter alone, and a
    function that remembered the one before would drain the workers that run the new one.
    """
    return [one.compute for one in read_pipelines(environment().pipeline_parameters)]


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """A batch of the nudge queue, or `{"sweep": true}`, every minute."""
    if event.get("sweep"):
        for pipeline in deployed_pipelines():
            nudge_to_look(environment().nudge_queue_url, pipeline.id)
        return {}
    not_done = [record for pipeline, records in by_pipeline(event["Records"]) for record in look(pipeline, records)]
    return failed(not_done)


def by_pipeline(records: list[Record]) -> Iterator[tuple[PipelineCompute, list[Record]]]:
    """The records of each pipeline that has any; one look does for all of them."""
    for pipeline in deployed_pipelines():
        own = [record for record in records if _is_about(pipeline, json.loads(record["body"]))]
        if own:
            yield pipeline, own


def look(pipeline: PipelineCompute, records: list[Record]) -> list[Record]:
    """Scale a pipeline once; the records come back if that failed."""
    bodies = [json.loads(record["body"]) for record in records]
    workers = Workers(state_table(environment().state_table), pipeline.id)
    try:
        for body in bodies:
            known(workers, body)
        scale(pipeline, workers, work_is_coming=any(_tells_of_work(body) for body in bodies))
    except Exception as error:
        log_fault("scaling failed", error, pipeline=pipeline.id)
        return records
    return []


def known(workers: Workers, body: dict[str, Any]) -> None:
    """The worker of a Batch event has a row: one whose row was never written, and that never started, counts too."""
    if "detail" in body and workers.get(body["detail"]["jobId"]) is None:
        workers.submitted(body["detail"]["jobId"], body["detail"]["jobDefinition"])


def scale(pipeline: PipelineCompute, workers: Workers, work_is_coming: bool) -> None:
    """Settle what ended, judge the breaker, and start what is missing, or fail the queue if nothing ever will start."""
    now = datetime.now(UTC)
    fleet = Fleet(pipeline, workers)
    fleet.settle()
    give_up_stuck(pipeline, fleet.all, timedelta(minutes=environment().scaling.stuck_minutes), now)
    deaths = fleet.deaths
    breaker = judge(pipeline, workers, fleet, deaths, now)
    fleet.drain_outdated()
    live = [worker for worker in fleet.live if not fleet.is_outdated(worker)]
    # The message of a planned job is sent after its nudge, and SQS's counts lag a minute behind.
    backlog = max(count(pipeline.queue_url), 1 if work_is_coming else 0)
    settle_totals(pipeline, workers, breaker, backlog, now)
    wanted = wanted_now(pipeline, breaker, backlog, len(live), environment().scaling.target_drain_seconds)
    if breaker.refuses and not fleet.live and not may_start(breaker, now):
        refuse(pipeline, breaker)
    else:
        match(pipeline, workers, fleet, live, breaker, wanted, now)
    measure(
        pipeline.id,
        {
            metrics.BACKLOG: backlog,
            metrics.LIVE_WORKERS: len(live),
            metrics.RUNNING_WORKERS: fleet.running,
            metrics.WANTED_WORKERS: wanted,
            metrics.BREAKER_OPEN: int(breaker.open),
            metrics.STUCK_WORKERS: sum(death.cause == "capacity" for death in deaths),
        },
    )


def match(
    pipeline: PipelineCompute,
    workers: Workers,
    fleet: Fleet,
    live: list[Worker],
    breaker: PipelineRow,
    wanted: int,
    now: datetime,
) -> None:
    """Start what is missing, replace what has lived its life, and keep what is wanted warm."""
    young = [worker for worker in live if not worker.is_past_its_life(pipeline.max_life_hours, now)]
    aging = [worker for worker in live if worker not in young]
    workers.wanted(wanted)
    # `maxVCpus` is a total, which Batch keeps for each of its compute environments only.
    room = pipeline.max_workers - fleet.running
    if (shared := allowed_to_start(environment(), deployed_pipelines, pipeline, fleet.running, wanted)) is not None:
        room = min(room, shared)
    serving = sum(worker.row.completed > 0 for worker in live)
    missing = max(0, min(workers_to_start(wanted, len(young), serving, breaker, now), room))
    fleet.start(missing)
    ready = sum(worker.row.state == "READY" for worker in young)
    fleet.retire(aging[: retiring(len(aging), ready, wanted, room)])
    fleet.keep_warm(young)
    log("scaled", pipeline=pipeline.id, live=len(live), aging=len(aging), wanted=wanted, started=missing)


def judge(pipeline: PipelineCompute, workers: Workers, fleet: Fleet, deaths: list[Death], now: datetime) -> PipelineRow:
    """The breaker, after what the workers that served or ended say about it. Each is heard once."""
    stored = workers.pipeline()
    before = of_deployment(stored, pipeline.job_definition)
    breaker = judged(before, fleet.has_served, deaths, environment().scaling, now)
    if breaker != stored:
        workers.set_breaker(breaker)
        log("breaker", failures=breaker.failures, open=breaker.open, retryAt=breaker.retry_at)
    # After the breaker: if we die in between, a failure counts twice rather than never.
    for worker in fleet.unjudged:
        workers.judged(worker.row.worker)
    return breaker


def settle_totals(pipeline: PipelineCompute, workers: Workers, row: PipelineRow, backlog: int, now: datetime) -> None:
    """Give a new pipeline its first guess, which workers narrow down, and set the totals of what waits right.

    They are wrong by a job for each process that died between a job's row and the totals. Where the queue has been
    empty for some minutes and they have not changed meanwhile, all that they hold is wrong.
    """
    if row.seconds_per_unit is None:
        workers.measured(seconds_per_unit=seconds_per_unit(pipeline, row))
    totals = (row.waiting_jobs, row.waiting_weight)
    if backlog or not any(totals):
        if row.surplus_since is not None:
            workers.note_surplus(*totals, since=None)
    elif surplus_is_settled(row, now):
        workers.subtract_surplus(*totals)
        log("totals of what waits set right", pipeline=pipeline.id, jobs=totals[0], weight=totals[1])
    elif row.surplus_since is None or row.surplus != totals_of(row):
        workers.note_surplus(*totals, since=now.isoformat())


def refuse(pipeline: PipelineCompute, breaker: PipelineRow) -> None:
    """Fail the queue with the breaker's reason, so many at a time."""
    assert breaker.reason is not None, "without a reason a breaker refuses nobody"
    if refuse_queue(pipeline.queue_url, breaker.reason, state_table(environment().state_table)):
        nudge_to_look(environment().nudge_queue_url, pipeline.id)


def count(queue_url: str) -> int:
    """The backlog, as far as SQS knows."""
    answer = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=list(_COUNTS))
    return sum(int(answer["Attributes"][name]) for name in _COUNTS)


def _is_about(pipeline: PipelineCompute, body: dict[str, Any]) -> bool:
    """A nudge names its pipeline, a Batch event its job queue, which is one pipeline's."""
    if "detail" in body:
        return bool(body["detail"]["jobQueue"] == pipeline.job_queue)
    return bool(body["pipeline"] == pipeline.id)


def _tells_of_work(body: dict[str, Any]) -> bool:
    return "detail" not in body and not body.get("sweep")
