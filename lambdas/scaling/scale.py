"""Scale pipelines: record workers that ended, update the breaker, and start, keep and drain workers."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.contract import metrics
from cosmos_batch.contract.environment import DeployedCompute, ScaleEnvironment
from cosmos_batch.state import PipelineRow, Workers
from lambdas.clients import state_table
from lambdas.job_queues import count_jobs
from lambdas.log import log, log_fault
from lambdas.metrics import measure
from lambdas.reporting.refusal import refuse_queue
from lambdas.scaling.breaker import (
    FailedWorker,
    breaker_after,
    breaker_of_deployment,
    may_start,
    without_lack_of_capacity,
    workers_to_start,
)
from lambdas.scaling.fleet import Fleet, FleetWorker
from lambdas.scaling.nudges import announces_work, is_about, nudge_to_look
from lambdas.scaling.stuck_workers import end_stuck_workers
from lambdas.scaling.unfed_jobs import unfed_jobs
from lambdas.scaling.vcpu_shares import workers_within_total
from lambdas.scaling.worker_count import (
    STARTS_AT_ONCE,
    seconds_per_unit,
    surplus_has_lasted,
    totals_of,
    wanted_by_pipeline,
    wanted_in_outage,
    workers_to_retire,
)
from lambdas.sqs_records import Record


def scale_pipelines(
    records: list[Record], pipelines: Sequence[DeployedCompute], environment: ScaleEnvironment
) -> list[Record]:
    """Scale each pipeline that a record of the nudge queue is about, and return the records of those that failed.

    Several records about one pipeline lead to one look at it.
    """
    failed: list[Record] = []
    for pipeline in pipelines:
        own_records = [record for record in records if is_about(pipeline, json.loads(record["body"]))]
        if not own_records:
            continue
        try:
            messages = [json.loads(record["body"]) for record in own_records]
            PipelineScaler(pipeline, pipelines, environment).handle(messages)
        except Exception as error:
            log_fault("scaling failed", error, pipeline=pipeline.id)
            failed += own_records
    return failed


class PipelineScaler:
    """Scales one pipeline once. `pipelines` are all that are deployed: they share a total of vCPUs."""

    def __init__(
        self, pipeline: DeployedCompute, pipelines: Sequence[DeployedCompute], environment: ScaleEnvironment
    ) -> None:
        self._pipeline = pipeline
        self._pipelines = pipelines
        self._environment = environment
        self._workers = Workers(state_table(environment.state_table), pipeline.id)
        self._now = datetime.now(UTC)

    def handle(self, messages: list[dict[str, Any]]) -> None:
        """Scale the pipeline, for these messages of the nudge queue."""
        for message in messages:
            self._register_worker(message)
        self._scale(work_is_coming=any(announces_work(message) for message in messages))

    def _register_worker(self, message: dict[str, Any]) -> None:
        """Write the row of a Batch event's worker if it has none.

        `Fleet.start` may have crashed before it wrote the row, and the worker may have ended before it registered
        itself; its end must still reach the breaker.
        """
        if "detail" in message and self._workers.get(message["detail"]["jobId"]) is None:
            self._workers.submitted(message["detail"]["jobId"], message["detail"]["jobDefinition"])

    def _scale(self, work_is_coming: bool) -> None:
        """Record what ended, update the breaker, then start missing workers, or refuse the queue if none can start."""
        pipeline, scaling = self._pipeline, self._environment.scaling
        fleet = Fleet(pipeline, self._workers)
        fleet.record_ends()
        end_stuck_workers(pipeline, fleet.all, timedelta(minutes=scaling.stuck_minutes), self._now)
        failed = fleet.failed
        breaker = self._update_breaker(fleet, failed)
        fleet.drain_outdated()
        live = [worker for worker in fleet.live if not fleet.is_outdated(worker)]
        # A planned job's message is sent after its nudge, and SQS's counts lag a minute behind.
        queued = count_jobs(pipeline.queue_url)
        backlog = max(queued, 1 if work_is_coming else 0)
        self._correct_totals(breaker, backlog)
        # Nothing is added to an empty queue: a run whose execution has died must not keep workers for ever.
        unfed = unfed_jobs(state_table(self._environment.state_table), pipeline) if queued else 0
        wanted = wanted_by_pipeline(pipeline, breaker, backlog + unfed, len(live), scaling.target_drain_seconds)
        if (paused_until := fleet.paused_until) is not None:
            server_answers = any(worker.row.server_answers for worker in live)
            wanted = wanted_in_outage(wanted, len(live), server_answers, paused_until, self._now)
        if wanted == 0 and not fleet.live and breaker.lacks_capacity:
            self._store_breaker(breaker, without_lack_of_capacity(breaker))
        if breaker.refuses and not fleet.live and not may_start(breaker, self._now):
            self._refuse_queue(breaker)
        else:
            self._adjust(fleet, live, breaker, wanted)
        measure(
            pipeline.id,
            {
                metrics.BACKLOG: backlog,
                metrics.LIVE_WORKERS: len(live),
                metrics.RUNNING_WORKERS: fleet.running,
                metrics.WANTED_WORKERS: wanted,
                metrics.BREAKER_OPEN: int(breaker.open),
                metrics.STUCK_WORKERS: sum(worker.cause == "capacity" for worker in failed),
            },
        )

    def _update_breaker(self, fleet: Fleet, failed: list[FailedWorker]) -> PipelineRow:
        """Count the workers that served or ended since the last look, each once; store the breaker and return it."""
        stored = self._workers.pipeline()
        before = breaker_of_deployment(stored, self._pipeline.job_definition)
        if fleet.has_started:
            before = without_lack_of_capacity(before)
        breaker = breaker_after(before, fleet.has_served, failed, self._environment.scaling, self._now)
        if breaker != stored:
            self._store_breaker(stored, breaker)
            log("breaker", failures=breaker.failures, open=breaker.open, retryAt=breaker.retry_at)
        # After the breaker: a crash in between lets a failure count twice rather than never.
        for worker in fleet.uncounted:
            self._workers.counted(worker.row.worker)
        return breaker

    def _store_breaker(self, stored: PipelineRow, breaker: PipelineRow) -> None:
        """Replace the stored breaker, and record a lack of capacity that has passed."""
        since = stored.no_capacity_since
        if since is not None and breaker.no_capacity_since != since:
            self._workers.shortages.ended(since, self._pipeline.instance_types)
        self._workers.set_breaker(breaker)

    def _correct_totals(self, row: PipelineRow, backlog: int) -> None:
        """Write a new pipeline's first estimate of its pace, and correct the stored totals of its waiting jobs.

        A process that crashes between writing a job's row and adding to the totals leaves them wrong by that job. If
        the queue has been empty for some minutes and the totals did not change meanwhile, all that they hold is wrong.
        """
        workers = self._workers
        if row.seconds_per_unit is None:
            workers.measured(seconds_per_unit=seconds_per_unit(self._pipeline, row))
        totals = (row.waiting_jobs, row.waiting_weight)
        if backlog or not any(totals):
            if row.surplus_since is not None:
                workers.note_surplus(*totals, since=None)
        elif surplus_has_lasted(row, self._now):
            workers.subtract_surplus(*totals)
            log("totals of what waits set right", pipeline=self._pipeline.id, jobs=totals[0], weight=totals[1])
        elif row.surplus_since is None or row.surplus != totals_of(row):
            workers.note_surplus(*totals, since=self._now.isoformat())

    def _adjust(self, fleet: Fleet, live: list[FleetWorker], breaker: PipelineRow, wanted: int) -> None:
        """Start missing workers, replace those that have reached the end of their life, and keep some warm."""
        pipeline, now = self._pipeline, self._now
        young = [worker for worker in live if not worker.is_past_its_life(pipeline.max_life_hours, now)]
        aging = [worker for worker in live if worker not in young]
        serving = sum(worker.row.completed > 0 for worker in live)
        missing = workers_to_start(wanted, len(young), serving, breaker, now)
        # The breaker may allow fewer workers than are wanted. Only those that it allows count against the vCPUs that
        # all pipelines share, so that other pipelines can use the rest.
        usable = min(wanted, len(young) + missing)
        self._workers.wanted(usable)
        # `maxVCpus` is a total, which Batch enforces for each of the pipeline's compute environments only.
        room = pipeline.max_workers - fleet.running
        within_total = workers_within_total(self._environment, self._pipelines, pipeline, fleet.running, usable)
        if within_total is not None:
            room = min(room, within_total)
        missing = max(0, min(missing, room, STARTS_AT_ONCE))
        fleet.start(missing)
        ready = sum(worker.row.state == "READY" for worker in young)
        fleet.drain(aging[: workers_to_retire(len(aging), ready, wanted, room)])
        fleet.keep_warm(young)
        log("scaled", pipeline=pipeline.id, live=len(live), aging=len(aging), wanted=wanted, started=missing)

    def _refuse_queue(self, breaker: PipelineRow) -> None:
        """Fail the queue's jobs with the breaker's reason, a number of them in each invocation."""
        assert breaker.reason is not None, "a breaker without a reason refuses no jobs"
        self._workers.wanted(0)
        table = state_table(self._environment.state_table)
        if refuse_queue(self._pipeline.queue_url, breaker.reason, table):
            nudge_to_look(self._environment.nudge_queue_url, self._pipeline.id)
