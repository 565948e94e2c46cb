"""Find out who waits for a job, and tell them its end: an execution with a task token, or items of runs, without one.

A worker learns from an execution's heartbeat that nobody waits for a job any more. An item's run has no heartbeat: its
row in the state table is read instead, at most once in `SECONDS` for each run, however many of its items are in hand.
Before an item is dropped the row is read anew, because a run that was cancelled may go on by now. Items that ask at the
same time share one reading.
"""

import asyncio
import logging
import threading
import time
from datetime import UTC, datetime

from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.runs import ITEM_CANCELLED
from cosmos_batch.state import FINAL, JobRow, Jobs, Runs, Watcher, count_item
from cosmos_batch.store.s3_retries import FAULTS
from cosmos_batch.worker.queue import Delivery
from cosmos_batch.worker.task_tokens import TaskTokens, TokenState

SECONDS = 10.0

log = logging.getLogger(__name__)


class Callers:
    """Finds out whether anybody waits for a job, and tells those who do how it ended. Blocks, where not `async`."""

    def __init__(self, task_tokens: TaskTokens, jobs: Jobs, runs: Runs) -> None:
        self._task_tokens = task_tokens
        self._jobs = jobs
        self._runs = runs
        self._stops: dict[str, tuple[float, bool]] = {}
        self._lock = threading.Lock()

    def state(self, delivery: Delivery) -> TokenState:
        """Return whether somebody waits for the job. A fault of AWS is `unknown` and never `gone`."""
        job = delivery.job
        if delivery.task_token is not None:
            return self._task_tokens.heartbeat(job.job_id, delivery.task_token)
        assert delivery.run is not None, "a message has a token or a run"
        try:
            if not self._has_stopped(delivery.run, SECONDS):
                return "alive"
            row = self._jobs.get(job.job_id)
            return "gone" if row is None or not self._others_wait(row, SECONDS) else "alive"
        except FAULTS:
            log.warning("the run's row could not be read", exc_info=True, extra={"jobId": job.job_id})
            return "unknown"

    def _others_wait(self, row: JobRow, seconds: float) -> bool:
        runs = {Watcher.parse(watcher).run for watcher in row.watchers}
        return not all(self._has_stopped(run, seconds) for run in sorted(runs))

    def _has_stopped(self, run: str, seconds: float) -> bool:
        """Return whether a run has stopped and needs no item any more, by a reading of its row that began at most
        `seconds` before this call."""
        asked_at = time.monotonic()
        with self._lock:  # one of many items reads the row, and the others wait for what it finds
            began_at, stops = self._stops.get(run, (float("-inf"), False))
            if began_at <= asked_at - seconds:
                began_at = time.monotonic()
                row = self._runs.get(run)
                stops = row is None or row.stops
                self._stops[run] = (began_at, stops)
            return stops

    async def until_gone(self, delivery: Delivery) -> None:
        """Wait until nobody waits for the job any more, or, for an item of a run, until its deadline has passed."""
        job = delivery.job
        if delivery.task_token is not None:
            await self._task_tokens.until_gone(job.job_id, delivery.task_token)
            return
        while await asyncio.to_thread(self.deadline, job) > datetime.now(UTC):
            await asyncio.sleep(self._task_tokens.seconds_to_next)
            if await asyncio.to_thread(self.state, delivery) == "gone":
                return

    def deadline(self, job: Job) -> datetime:
        """Return the job's deadline; once that has passed, the latest one of the runs that have come to wait for it."""
        if job.deadline > datetime.now(UTC):
            return job.deadline
        try:
            row = self._jobs.get(job.job_id)
        except FAULTS:
            log.warning("the job's row could not be read", exc_info=True, extra={"jobId": job.job_id})
            return job.deadline
        return job.deadline if row is None else latest_deadline(job, row)

    def report(self, delivery: Delivery, result: Result) -> None:
        """Tell an execution how its job ended. Items of runs are told by `count`, once the row says so."""
        if delivery.task_token is not None:
            self._task_tokens.report(delivery.task_token, result)

    def count(self, row: JobRow | None) -> None:
        """Count a job that has ended in the shards whose items wait for it, and answer those that are complete."""
        if row is None:
            return
        for shard in count_item(row, self._runs):
            log.info("the last item of its shard", extra={"jobId": row.job_id, "run": shard.run, "shard": shard.shard})
            for token in self._runs.shards.tokens(shard):
                self._task_tokens.shard_done(token, shard.run, shard.shard)

    def plan_again(self, row: JobRow, reason: str) -> None:
        """Have the shards that wait for an item fed again, by which the item is planned for what is deployed now."""
        waiting = {(watcher.run, watcher.shard) for watcher in map(Watcher.parse, row.watchers)}
        for run, shard in sorted(waiting):
            shard_row = self._runs.shards.get(run, shard)
            if shard_row is None:
                continue
            for token in self._runs.shards.tokens(shard_row):
                self._task_tokens.plan_again(row.job_id, token, reason)
            self._runs.shards.forget_tokens(shard_row)

    def cancel(self, delivery: Delivery) -> bool:
        """Close an item's job that no run waits for. Returns False if one has come to wait for it, or goes on."""
        row = self._jobs.get(delivery.job.job_id)
        if row is None:
            return True
        if self._others_wait(row, 0):
            return False
        closed = self._jobs.close(row.job_id, Result(job_id=row.job_id, error=ITEM_CANCELLED), True, row.watchers)
        if closed is None or closed.state not in FINAL:
            return False
        self.count(closed)
        return True


def latest_deadline(job: Job, row: JobRow) -> datetime:
    """Return the job's deadline, or that of a run which has come to wait for it since, if it is later."""
    return job.deadline if row.deadline is None else max(job.deadline, datetime.fromisoformat(row.deadline))
