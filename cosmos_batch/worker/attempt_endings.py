"""Ends an attempt at a job: stores its result, commits its error, or gives the job back to the queue.

Decision 005 says which failures count against a job, decision 053 what happens while a remote server is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure, too_late
from cosmos_batch.engines.errors import EngineDied, ServerUnavailable
from cosmos_batch.state import ItemFacts, JobRow, Jobs, Waiting
from cosmos_batch.store.s3_retries import FAULTS, may_succeed_later
from cosmos_batch.worker.callers import Callers
from cosmos_batch.worker.commit import Committer, not_stored
from cosmos_batch.worker.costs import facts_of
from cosmos_batch.worker.inference import TaskGoneError
from cosmos_batch.worker.job_attempt import AttemptEnd, AttemptPhase, JobAttempt
from cosmos_batch.worker.job_limits import server_timed_out
from cosmos_batch.worker.outputs import JobOutputs
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.server_outages import FORGIVEN_INTERRUPTIONS, Outage, pause_seconds

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0  # seconds until a result is stored again; doubled with each failure


@dataclass
class AttemptEndings:
    """The ways in which a worker's attempts end. `outage` tells whether the engine's remote server is unavailable."""

    environment: WorkerEnvironment
    jobs: Jobs
    callers: Callers
    queue: Queue
    committer: Committer
    model: ResidentModel

    def __post_init__(self) -> None:
        self.outage = Outage(self.model.engine)

    async def store(self, attempt: JobAttempt, outputs: JobOutputs) -> AttemptEnd:
        """Commit the outputs as the job's result; if that is refused or its deadline passes, commit an error."""
        facts = await self.facts(attempt)
        try:
            await self._conclude(attempt, self.committer.succeed, attempt, outputs, facts)
        except Failure as failure:
            error = failure.error
        except FAULTS as fault:
            error = not_stored(attempt.job, fault)
        else:
            return AttemptEnd.ANSWERED
        await self.conclude_failed(attempt, error)
        return AttemptEnd.FAILED

    async def finish(self, attempt: JobAttempt, row: JobRow) -> None:
        """Deliver the result of a job that an earlier attempt has committed."""
        await self._conclude(attempt, self.committer.finish, attempt.delivery, row)

    async def facts(self, attempt: JobAttempt) -> ItemFacts | None:
        """Return the cost and the model's commit of an attempt at an item of a run; None if it was not in the engine.

        Also None for a job that is no item of a run, because the job's own document has these facts.
        """
        if attempt.delivery.run is None or attempt.inferring_since is None:
            return None
        revision = self.model.stored.commit if self.model.is_loaded else None
        return await asyncio.to_thread(facts_of, attempt.engine_seconds, revision)

    async def conclude_failed(self, attempt: JobAttempt, error: Error) -> None:
        """Commit and report that the job has failed."""
        facts = await self.facts(attempt)
        await self._conclude(attempt, self.committer.fail, attempt, error, facts)

    async def _conclude(self, attempt: JobAttempt, conclusion: Callable[..., None], *arguments: object) -> None:
        """Call a method of the committer; while AWS is unavailable, repeat it until the job's deadline.

        Raises
        ------
        FAULTS
            AWS refused a request, or the deadline has passed.
        TaskGoneError
            The execution ended before a result was decided.
        """
        attempt.phase = AttemptPhase.CONCLUDING
        wait = FIRST_WAIT
        while True:
            try:
                await asyncio.to_thread(conclusion, *arguments)
            except FAULTS as fault:
                left = (attempt.job.deadline - datetime.now(UTC)).total_seconds()
                if not may_succeed_later(fault) or left < wait:
                    raise
                log.warning("not stored yet: tried again", exc_info=True, extra={"jobId": attempt.job.job_id})
            else:
                attempt.phase = AttemptPhase.CONCLUDING
                return
            attempt.phase = AttemptPhase.RETRYING
            await asyncio.sleep(wait * random.uniform(0.75, 1))
            wait = min(2 * wait, LONGEST_WAIT)
            await asyncio.to_thread(self._raise_if_gone, attempt)

    def _raise_if_gone(self, attempt: JobAttempt) -> None:
        """Raise TaskGoneError if nobody waits for the job and no result was decided.

        A token is gone as well when the result was reported before. Then only the row is left to be written.
        """
        if self.callers.state(attempt.delivery) != "gone":
            return
        try:
            row = self.jobs.get(attempt.job.job_id)
        except FAULTS:
            return  # the row cannot be read now; the next try reads it again
        if row is None or row.winner is None:
            raise TaskGoneError

    async def pause(self, attempt: JobAttempt, away: ServerUnavailable) -> AttemptEnd:
        """Give a job back whose remote server is busy or away; it waits in its queue.

        The attempt does not count, unless the server has broken the job off too often.
        """
        self.outage.begin(away)
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        if row is None:
            return await self.drop(attempt)
        interrupted = away.kind == "interrupted"
        if interrupted and row.interruptions >= FORGIVEN_INTERRUPTIONS:
            return await self.fail(attempt, away.error)
        seconds = pause_seconds(attempt.job, row.pauses, away)
        if seconds is None:
            error = server_timed_out(attempt.job, away.error.message)
            await self.conclude_failed(attempt, error)
            return AttemptEnd.FAILED
        log.info("waits %d s: %s", seconds, away.error.message, extra={"jobId": attempt.job.job_id})
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        waiting = Waiting(reason=away.error.message, until=until.isoformat(timespec="seconds"))
        facts = await self.facts(attempt)
        await asyncio.to_thread(self.jobs.pause, attempt.job.job_id, attempt.attempt_id, waiting, interrupted, facts)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle, seconds)
        self.outage.paused(waiting)
        return AttemptEnd.PAUSED

    async def fail(self, attempt: JobAttempt, error: Error) -> AttemptEnd:
        """Give the job back for another attempt if its error may pass and attempts are left, else commit the error."""
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        attempts = row.attempts if row is not None else 0
        if error.retryable and attempts < self.environment.worker.max_attempts:
            await self.spend(attempt, error)
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
            return AttemptEnd.NOT_DECIDED
        await self.conclude_failed(attempt, error)
        return AttemptEnd.FAILED

    async def spend(self, attempt: JobAttempt, error: Error) -> None:
        """Close an attempt that counts, though it has no result."""
        facts = await self.facts(attempt)
        await asyncio.to_thread(self.jobs.spend_attempt, attempt.job.job_id, attempt.attempt_id, error, facts)

    async def give_back_lost(self, attempt: JobAttempt, died: EngineDied) -> AttemptEnd:
        """Give back a job that was in the engine when the engine's process ended.

        Any of the jobs that were in it may be the cause. So each is a suspect now, and its next attempt runs alone.
        """
        log.warning("lost with the engine", extra={"jobId": attempt.job.job_id})
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        facts = await self.facts(attempt)
        if row is not None and row.open_attempt is not None and row.open_attempt.id == attempt.attempt_id:
            await asyncio.to_thread(self.jobs.close_lost_attempt, row, died.error, facts)
        else:
            await asyncio.to_thread(self.jobs.add_cost, attempt.job.job_id, attempt.attempt_id, facts)
        if died.for_good:
            raise Failure.of(died.error)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    async def drop(self, attempt: JobAttempt) -> AttemptEnd:
        """Drop the work on a job that nobody waits for any more, or fail an item whose deadline has passed."""
        deadline = await asyncio.to_thread(self.callers.deadline, attempt.job)
        if attempt.delivery.task_token is None and deadline <= datetime.now(UTC):
            await self.conclude_failed(attempt, too_late(attempt.job.deadline))
            return AttemptEnd.FAILED
        log.info("nobody waits for it: the work is dropped", extra={"jobId": attempt.job.job_id})
        await self.undo(attempt)
        if await asyncio.to_thread(self.end_unwanted, attempt):
            await asyncio.to_thread(self.queue.delete, attempt.delivery.receipt_handle)
        else:
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    async def give_back(self, attempt: JobAttempt, after_seconds: int = 0) -> None:
        """Give the job back to the queue, where other workers see it after `after_seconds`.

        Neither the attempt nor the receipt counts.
        """
        await self.undo(attempt)
        await asyncio.to_thread(self.jobs.count_give_back, attempt.job.job_id)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle, after_seconds)

    async def undo(self, attempt: JobAttempt) -> None:
        """Close the attempt without counting it."""
        if attempt.phase is not AttemptPhase.WAITING:  # once committed, there is no open attempt to undo
            facts = await self.facts(attempt)
            await asyncio.to_thread(self.jobs.undo_attempt, attempt.job.job_id, attempt.attempt_id, facts)

    def end_unwanted(self, attempt: JobAttempt) -> bool:
        """Close the job of an item that no run wants. Returns False if a run has come to wait for it meanwhile.

        The job of an execution is closed by `report`.
        """
        return attempt.delivery.task_token is not None or self.callers.cancel(attempt.delivery)
