"""Reconcile runs with their jobs: count items whose end nobody counted, and answer shards that are complete."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.state import (
    FINAL,
    ItemEnd,
    ItemJobs,
    JobRow,
    RunRow,
    Runs,
    ShardRow,
    Table,
    Watcher,
    count_item,
    end_of,
)
from lambdas.log import log, log_fault
from lambdas.runs.item_messages import Unsent, send_jobs
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import answer_shards, finish_parking

THREADS = 16
# A shard in which no item has ended for this time is checked item by item. A generation takes some minutes.
STALLED = timedelta(minutes=10)
LATE = timedelta(hours=1)  # the time after its deadline when an item that a worker had begun ends without the worker

NEVER_DELIVERED = Error(
    code="TimedOut",
    message="The deadline passed, and no worker received the item.",
    remedy="Retry what failed; see the breaker and the workers of its pipeline with `cosmos-batch status`.",
    retryable=True,
)


def reconcile_runs(table: Table, bucket: str, queue_urls: Mapping[str, str]) -> None:
    """Reconcile every run that has not ended. A fault with one run does not keep the others from it.

    `queue_urls` are the queues of the enabled pipelines, by the pipeline's id.
    """
    runs = Runs(table)
    for run in runs.active():
        try:
            for shard in runs.in_flight(run):
                if shard.is_awaited:
                    _reconcile_shard(run, shard, runs, ShardReconciliation(shard, table, bucket, queue_urls))
            if run.state == "HELD":  # reading all shards is dear, and only those of a held run may be parked
                _finish_parking(run, runs)
        except Exception as fault:
            log_fault("run not reconciled", fault, run=run.id)


def _reconcile_shard(run: RunRow, shard: ShardRow, runs: Runs, stalled: "ShardReconciliation") -> None:
    """Answer a shard that is complete or whose run has stopped; count what is missing in a stalled one."""
    if shard.state == "RUNNING" and not shard.complete and not run.stops and _is_stalled(shard):
        shard = stalled.recount()
    if shard.complete or run.stops:
        answer_shards([shard], runs)
        log("shard answered by reconciliation", run=shard.run, shard=shard.shard)


def _finish_parking(run: RunRow, runs: Runs) -> None:
    """Answer the task tokens of shards that were parked by a process which may have died before it answered them."""
    for shard in runs.shards.of_run(run.id):
        if shard.is_half_parked:
            finish_parking(shard, runs)
            log("parking finished by reconciliation", run=shard.run, shard=shard.shard)


def _is_stalled(shard: ShardRow) -> bool:
    counted_at = datetime.fromisoformat(shard.counted_at) if shard.counted_at else datetime.min.replace(tzinfo=UTC)
    return datetime.now(UTC) - counted_at >= STALLED


class ShardReconciliation:
    """Looks at each item of one shard that has not ended."""

    def __init__(self, shard: ShardRow, table: Table, bucket: str, queue_urls: Mapping[str, str]) -> None:
        self._shard = shard
        self._jobs, self._runs = ItemJobs(table), Runs(table)
        self._objects = RunObjects(bucket, shard.run)
        self._queue_url = queue_urls.get(shard.pipeline)

    def recount(self) -> ShardRow:
        """Count items that have ended unnoticed, fail those whose deadline has passed, and send what is not sent."""
        shard = self._shard
        planned = None if shard.planned_by is None else self._objects.planned(shard.planned_by, shard.shard)
        missing = [
            (index, item.job)
            for index, item in enumerate(planned or ())
            if item.job is not None and index not in shard.ended
        ]
        with ThreadPoolExecutor(THREADS) as pool:
            looked = list(pool.map(lambda one: self._look_at(*one), missing))
        self._send([state for state in looked if isinstance(state, Unsent)])
        numbered = zip(missing, looked, strict=True)
        ends = {index: state for (index, _), state in numbered if isinstance(state, ItemEnd)}
        if ends:
            log("items counted by reconciliation", run=shard.run, shard=shard.shard, items=len(ends))
            return self._runs.shards.count(shard.run, shard.shard, ends) or shard
        self._runs.shards.looked_at(shard.run, shard.shard)
        return shard

    def _look_at(self, index: int, job: Job) -> ItemEnd | Unsent | None:
        """Return the end of an item, or its job if that has to be sent; None where a worker does it or will do it."""
        watcher = Watcher(self._shard.run, self._shard.shard, index)
        row = self._jobs.get(job.job_id)
        if row is None or not (row.concerns(watcher) or row.end_for(watcher)):
            return None  # the feeding of the shard is not over
        if row.end_for(watcher) is None:
            row = self._after_deadline(row, watcher, job)
        if row is None:
            return ItemEnd("failed")
        end = row.end_for(watcher)
        if end is not None:
            return end_of(end, watcher)
        return None if row.is_sent else Unsent(job, row)

    def _after_deadline(self, row: JobRow, watcher: Watcher, job: Job) -> JobRow | None:
        """Return the row of a job in flight, which is closed if its deadline is over: long, if a worker has begun it.

        Where another run that waits for the job gives it more time, this item alone ends, and None is returned.
        """
        now = datetime.now(UTC)
        latest = job.deadline if row.deadline is None else datetime.fromisoformat(row.deadline)
        if now - latest >= (timedelta(0) if row.state == "PLANNED" else LATE):
            result = Result(job_id=row.job_id, error=NEVER_DELIVERED)
            row = self._jobs.close(row.job_id, result, cancelled=False) or row
            if row.state in FINAL:
                answer_shards(count_item(row, self._runs), self._runs)
            return row
        is_late = now >= job.deadline and latest > job.deadline
        return None if is_late and self._jobs.leave(row.job_id, watcher) else row

    def _send(self, unsent: list[Unsent]) -> None:
        """Send jobs that no row says were sent. Nothing is sent while their pipeline is not enabled."""
        if unsent and self._queue_url is not None:
            send_jobs(self._queue_url, self._objects.request(), unsent, self._jobs)
            log("items sent by reconciliation", run=self._shard.run, shard=self._shard.shard, items=len(unsent))
