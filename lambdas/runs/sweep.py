"""Sweep the runs that have not ended: answer shards whose last answer was lost, and count what was never counted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import FINAL, JobRow, Jobs, RunRow, Runs, ShardRow, Table
from cosmos_batch.state.item_ends import end_of
from lambdas.log import log, log_fault
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import answer_shards

THREADS = 16
# A shard without an end for so long is looked at item by item. A generation takes some minutes.
STALLED = timedelta(minutes=10)
LATE = timedelta(hours=1)  # after its deadline, an item that no worker has failed was never delivered

NEVER_DELIVERED = Error(
    code="TimedOut",
    message="The deadline passed, and no worker received the item.",
    remedy="Retry what failed; see the breaker and the workers of its pipeline with `cosmos-batch status`.",
    retryable=True,
)


def sweep_runs(table: Table, bucket: str) -> None:
    """Sweep every run that has not ended. A fault with one run does not keep the others from being swept."""
    runs = Runs(table)
    for run in runs.active():
        try:
            for shard in _waiting(run, runs):
                _sweep_shard(run, shard, table, bucket)
        except Exception as fault:
            log_fault("run not swept", fault, run=run.id)


def _waiting(run: RunRow, runs: Runs) -> Iterator[ShardRow]:
    return (shard for shard in runs.shards(run.id) if shard.state in ("FEEDING", "RUNNING") and shard.task_tokens)


def _sweep_shard(run: RunRow, shard: ShardRow, table: Table, bucket: str) -> None:
    """Answer a shard that is complete or whose run has stopped; count what is missing in a stalled one."""
    if shard.state == "RUNNING" and not shard.complete and not run.stops and _is_stalled(shard):
        shard = _recount(shard, table, bucket)
    if shard.complete or run.stops:
        answer_shards([shard])
        log("shard answered by the sweep", run=shard.run, shard=shard.shard)


def _is_stalled(shard: ShardRow) -> bool:
    counted_at = datetime.fromisoformat(shard.counted_at) if shard.counted_at else datetime.min.replace(tzinfo=UTC)
    return datetime.now(UTC) - counted_at >= STALLED


def _recount(shard: ShardRow, table: Table, bucket: str) -> ShardRow:
    """Count the items that have ended and were not counted, and fail those whose deadline has passed unnoticed."""
    jobs, runs = Jobs(table), Runs(table)
    planned = RunObjects(bucket, shard.run).planned(shard.planned_by or "", shard.shard)
    missing = {
        index: item.job for index, item in enumerate(planned or ()) if item.job is not None and index not in shard.ended
    }
    with ThreadPoolExecutor(THREADS) as pool:
        rows = pool.map(lambda job: _ended(jobs.get(job.job_id), job.deadline, jobs), missing.values())
        ends = {index: end_of(row, shard.run) for index, row in zip(missing, rows, strict=True) if row is not None}
    if ends:
        log("counted by the sweep", run=shard.run, shard=shard.shard, items=len(ends))
        return runs.count(shard.run, shard.shard, ends) or shard
    runs.looked_at(shard.run, shard.shard)
    return shard


def _ended(row: JobRow | None, deadline: datetime, jobs: Jobs) -> JobRow | None:
    """Return the row of a job that has ended, or that is ended now because its deadline is long over."""
    if row is not None and row.state not in FINAL and datetime.now(UTC) - deadline >= LATE:
        row = jobs.close(row.job_id, Result(job_id=row.job_id, error=NEVER_DELIVERED), cancelled=False)
    return row if row is not None and row.state in FINAL else None
