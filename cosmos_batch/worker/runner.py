"""Takes one message from its receipt until it is deleted or given back to the queue.

`Runner.handle` reads the job's row, fetches its files (`inputs`), runs the engine (`inference`), checks the output
(`outputs`), and stores and reports the result (`commit`). Decision 005 says which failures count against a job,
decision 053 what happens while a remote server is unavailable.
"""

from __future__ import annotations

import asyncio
import logging
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.engines.errors import EngineDied, ServerUnavailable
from cosmos_batch.state import FINAL, Attempt, ConditionFailed, ItemFacts, JobRow, Jobs, Waiting, Workers
from cosmos_batch.store.s3_retries import FAULTS, may_succeed_later
from cosmos_batch.worker.callers import Callers, latest_deadline
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import Committer, not_stored
from cosmos_batch.worker.costs import facts_of
from cosmos_batch.worker.inference import Inference, Slots, TaskGoneError
from cosmos_batch.worker.inputs import prepare, wait_for_disk
from cosmos_batch.worker.job_attempt import AttemptEnd, AttemptPhase, JobAttempt, stage_reached
from cosmos_batch.worker.job_limits import refusal, server_timed_out, timed_out, too_late
from cosmos_batch.worker.outputs import JobOutputs, collect_outputs
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.server_outages import FORGIVEN_INTERRUPTIONS, Outage, pause_seconds
from cosmos_batch.worker.task_tokens import TaskTokens

if TYPE_CHECKING:
    from cosmos_batch.engines.generator.upsampling import Upsampler

log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0  # seconds until a result is stored again; doubled with each failure
RECEIPTS_BEFORE_PLANNED_AGAIN = 5  # of an item that was planned for another deployment

UNPLANNED = Error(
    code="Internal",
    message="The job has no row in the state table, or was closed without a reason.",
    remedy="Start the job again.",
    retryable=True,
)


@dataclass
class Runner:
    """Handles the deliveries of a worker, each in an asyncio task of its own."""

    environment: WorkerEnvironment
    clients: Clients
    jobs: Jobs
    workers: Workers
    task_tokens: TaskTokens
    callers: Callers
    queue: Queue
    committer: Committer
    model: ResidentModel
    slots: Slots
    inference: Inference
    upsampler: Upsampler | None = None
    _began_in_company: bool = False

    def __post_init__(self) -> None:
        self.outage = Outage(self.model.engine)

    async def handle(self, attempt: JobAttempt) -> AttemptEnd:
        """Handle one delivery until its job is decided or given back.

        Cancelling gives the job back at once: its attempt is undone and its message becomes visible to other workers.
        """
        try:
            return await self._handle_or_drop(attempt)
        except asyncio.CancelledError:
            log.info("given back", extra={"jobId": attempt.job.job_id})
            await self._give_back(attempt)
            return AttemptEnd.NOT_DECIDED
        except Failure:
            if not attempt.has_left_engine:
                log.error("given back: its model cannot be loaded", extra={"jobId": attempt.job.job_id})
                await self._give_back(attempt)
            raise
        except Exception as fault:
            # AWS or the disk failed, not the job. Its lease lapses, and it is tried again after its visibility timeout.
            log.exception("left in the queue for another attempt", extra={"jobId": attempt.job.job_id})
            self.queue.abandon(attempt.delivery.receipt_handle)
            if (
                attempt.has_left_engine
            ):  # the inference is lost: the attempt counts, so that `maxAttempts` limits its price
                error = not_stored(attempt.job, fault)
                await asyncio.to_thread(self.jobs.spend_attempt, attempt.job.job_id, attempt.attempt_id, error)
            else:
                await self._undo(attempt)
            raise

    async def _handle_or_drop(self, attempt: JobAttempt) -> AttemptEnd:
        try:
            return await self._handle(attempt)
        except TaskGoneError:
            return await self._drop(attempt)

    async def _handle(self, attempt: JobAttempt) -> AttemptEnd:
        stage_reached("received", attempt.job)
        row = await asyncio.to_thread(self._read_row, attempt)
        if row is None:
            return AttemptEnd.NOT_DECIDED
        if row.winner is not None:
            await self._conclude(attempt, self.committer.finish, attempt.delivery, row)
            return AttemptEnd.NOT_DECIDED
        if (error := refusal(attempt.delivery, row, self.environment)) is not None:
            await self._conclude_failed(attempt, error)
            return AttemptEnd.FAILED
        if not self.serves(attempt.job):
            return await self._pass_on(attempt)
        await self._renew_model(attempt)
        return await self._serve(attempt, alone=row.suspect)

    def serves(self, job: Job) -> bool:
        """Return whether the job was planned for the configuration and the model commit that this worker runs."""
        planned_for = job.planned_for
        if planned_for is None:
            return True
        if planned_for.configuration != self.environment.configuration:
            return False
        if planned_for.revision is None or not self.model.is_loaded:
            return True
        return planned_for.revision == self.model.stored.commit

    async def record_model(self) -> None:
        """Write the loaded commit to the worker's row: `scale` compares it with the recorded revision."""
        stored, environment = self.model.stored, self.environment
        await asyncio.to_thread(
            self.workers.loaded, environment.aws_batch_job_id, stored.model, environment.model_revision, stored.commit
        )

    async def _pass_on(self, attempt: JobAttempt) -> AttemptEnd:
        """Leave a job to a worker that runs what the job was planned for; no attempt is spent (decision 064).

        Only `scale` knows whether this worker or the job is outdated. If `scale` has asked this worker to leave, the
        message is hidden for long enough that every worker of this deployment is told to leave as well, and a later one
        takes the job. Otherwise the job is planned again, for what is deployed now. Where `scale` has not seen the
        deployment yet, the new plan is the same as before; but each plan invokes `scale`, which sees it then.
        """
        row = await asyncio.to_thread(self.workers.get, self.environment.aws_batch_job_id)
        planned_for, job_id = attempt.job.planned_for, attempt.job.job_id
        log.info("not for this worker: it was planned for %s", planned_for, extra={"jobId": job_id})
        if row is not None and row.must_drain:
            seconds = self.environment.worker.seen_seconds
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle, seconds)
            return AttemptEnd.OUTDATED
        token = attempt.delivery.task_token
        if token is None:
            return await self._pass_on_item(attempt)
        reason = f"Worker {self.environment.aws_batch_job_id} does not run what the job was planned for: {planned_for}"
        await asyncio.to_thread(self.task_tokens.plan_again, job_id, token, reason)
        await asyncio.to_thread(self.queue.delete, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    async def _pass_on_item(self, attempt: JobAttempt) -> AttemptEnd:
        """Leave an item of a run to another worker; after some receipts, have it planned for what is deployed now.

        While a deployment is under way `scale` soon finds out which workers are outdated. The note that the message was
        sent is removed before it is deleted, so that the feeding of the item's shard sends another one.
        """
        job_id = attempt.job.job_id
        row = await asyncio.to_thread(self.jobs.get, job_id)
        early = attempt.delivery.receipts < RECEIPTS_BEFORE_PLANNED_AGAIN
        if early or row is None or not await asyncio.to_thread(self.jobs.unsent, job_id):
            seconds = self.environment.worker.seen_seconds
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle, seconds)
            return AttemptEnd.NOT_DECIDED
        reason = f"The item was planned for {attempt.job.planned_for}, which no worker runs any more."
        await asyncio.to_thread(self.callers.plan_again, row, reason)
        await asyncio.to_thread(self.queue.delete, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    def _read_row(self, attempt: JobAttempt) -> JobRow | None:
        """Return the job's row, with an attempt that a lost worker left open settled.

        None where no work is left: the execution is gone, the job has no row, or the job was closed without a winner.
        Its error is reported then, and the message deleted.
        """
        state = self.callers.state(attempt.delivery)
        row = self.jobs.get(attempt.job.job_id)
        undecided = row is None or row.winner is None
        if undecided and state == "gone" and self._end_unwanted(attempt):
            log.info("nobody waits for it", extra={"jobId": attempt.job.job_id})
        elif row is None:
            self.callers.report(attempt.delivery, Result(job_id=attempt.job.job_id, error=UNPLANNED))
        elif undecided and row.state in FINAL:
            # Whoever closed the job may have ended before those who wait for it were told.
            self.callers.report(attempt.delivery, row.result or Result(job_id=row.job_id, error=UNPLANNED))
            self.callers.count(row)
        else:
            if attempt.delivery.task_token is None:
                attempt.extend_deadline(latest_deadline(attempt.job, row))
            return self.jobs.settle_lost(row)
        self.queue.delete(attempt.delivery.receipt_handle)
        return None

    def _end_unwanted(self, attempt: JobAttempt) -> bool:
        """Close the job of an item that no run wants. Returns False if a run has come to wait for it meanwhile.

        The job of an execution is closed by `report`.
        """
        return attempt.delivery.task_token is not None or self.callers.cancel(attempt.delivery)

    async def _serve(self, attempt: JobAttempt, alone: bool) -> AttemptEnd:
        with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as workdir:
            async with self.slots.place(alone):
                if not self.model.is_loaded:  # a renewal failed while this job waited for its slot
                    await self._give_back(attempt)
                    return AttemptEnd.NOT_DECIDED
                if not self.serves(attempt.job):  # another commit was loaded while this job waited
                    return await self._pass_on(attempt)
                return await self._attempt(attempt, Path(workdir), alone)

    async def _attempt(self, attempt: JobAttempt, workdir: Path, alone: bool) -> AttemptEnd:
        began = time.monotonic()
        try:
            await wait_for_disk(attempt.job, workdir)
            await self._open(attempt, alone)
            job = await asyncio.to_thread(prepare, self.clients.s3, attempt.job, workdir)
            if self.upsampler is not None:
                job = await self.upsampler.upsample(job, workdir)
            prepared = time.monotonic() - began
            output = await self.inference.infer(attempt, job, workdir)
            self.outage.end()
            assert attempt.inferring_since is not None, "it was in the engine"
            timings = {"prepare": round(prepared, 3), "infer": round(time.monotonic() - attempt.inferring_since, 3)}
            attempt.phase = AttemptPhase.CONCLUDING
            outputs = await asyncio.to_thread(
                collect_outputs, self.environment, self.model, job, output, workdir, timings
            )
        except ServerUnavailable as away:
            return await self._pause(attempt, away)
        except Failure as failure:
            return await self._failed(attempt, failure.error)
        except ConditionFailed:
            return await self._handle(attempt)  # another attempt decided the job meanwhile
        except TimeoutError:
            return await self._failed(attempt, timed_out(attempt.job, self.environment))
        except EngineDied as died:
            return await self._lost(attempt, died)
        stage_reached("inferred", job)
        return await self._store(attempt, outputs)

    async def _renew_model(self, attempt: JobAttempt) -> None:
        """Load a newer copy of the model if the job wants one, once no other job is in the worker.

        If no newer copy can ever be loaded, only the job that wanted it fails. The model is not in memory any more, so
        this worker ends, and the next one serves the other jobs with the copy that it has.
        """
        if not self.model.too_old_for(attempt.job):
            return
        async with self.slots.place(alone=True):
            try:
                await self.model.renew(attempt.job)
            except Failure as failure:
                if not failure.error.retryable:
                    await self._conclude_failed(attempt, failure.error)
                raise
            await self.record_model()

    async def _open(self, attempt: JobAttempt, alone: bool) -> None:
        """Open an attempt in the job's row.

        It begins before the files are probed, because hostile media can kill the worker there already.
        """
        solo = alone or self.model.engine.concurrency == 1
        name = self.environment.aws_batch_job_id
        attempt.phase = AttemptPhase.PREPARING
        if solo:
            await asyncio.to_thread(self.workers.alone_with, name, attempt.job.job_id)
        elif not self._began_in_company:
            self._began_in_company = True
            await asyncio.to_thread(self.workers.began_in_company, name)
        await _complete(
            self.jobs.open_attempt, attempt.job.job_id, Attempt(id=attempt.attempt_id, worker=name, solo=solo)
        )
        stage_reached("started", attempt.job)

    async def _pause(self, attempt: JobAttempt, away: ServerUnavailable) -> AttemptEnd:
        """Give a job back whose remote server is busy or away; it waits in its queue.

        The attempt does not count, unless the server has broken the job off too often.
        """
        self.outage.begin(away)
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        if row is None:
            return await self._drop(attempt)
        interrupted = away.kind == "interrupted"
        if interrupted and row.interruptions >= FORGIVEN_INTERRUPTIONS:
            return await self._failed(attempt, away.error)
        seconds = pause_seconds(attempt.job, row.pauses, away)
        if seconds is None:
            error = server_timed_out(attempt.job, away.error.message)
            await self._conclude_failed(attempt, error)
            return AttemptEnd.FAILED
        log.info("waits %d s: %s", seconds, away.error.message, extra={"jobId": attempt.job.job_id})
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        waiting = Waiting(reason=away.error.message, until=until.isoformat(timespec="seconds"))
        await asyncio.to_thread(self.jobs.pause, attempt.job.job_id, attempt.attempt_id, waiting, interrupted)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle, seconds)
        return AttemptEnd.NOT_DECIDED

    async def _failed(self, attempt: JobAttempt, error: Error) -> AttemptEnd:
        """Give the job back for another attempt if its error may pass and attempts are left, else commit the error."""
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        attempts = row.attempts if row is not None else 0
        if error.retryable and attempts < self.environment.worker.max_attempts:
            await asyncio.to_thread(self.jobs.spend_attempt, attempt.job.job_id, attempt.attempt_id, error)
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
            return AttemptEnd.NOT_DECIDED
        facts = await self._facts(attempt)
        await self._conclude_failed(attempt, error, facts)
        return AttemptEnd.FAILED

    async def _lost(self, attempt: JobAttempt, died: EngineDied) -> AttemptEnd:
        """Give back a job that was in the engine when the engine's process ended.

        Any of the jobs that were in it may be the cause. So each is a suspect now, and its next attempt runs alone.
        """
        log.warning("lost with the engine", extra={"jobId": attempt.job.job_id})
        row = await asyncio.to_thread(self.jobs.get, attempt.job.job_id)
        if row is not None and row.open_attempt is not None and row.open_attempt.id == attempt.attempt_id:
            await asyncio.to_thread(self.jobs.settle_lost, row, died.error)
        if died.for_good:
            raise Failure.of(died.error)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    async def _store(self, attempt: JobAttempt, outputs: JobOutputs) -> AttemptEnd:
        """Commit the outputs as the job's result; if that is refused or its deadline passes, commit an error."""
        facts = await self._facts(attempt)
        try:
            await self._conclude(attempt, self.committer.succeed, attempt.delivery, attempt.attempt_id, outputs, facts)
        except Failure as failure:
            error = failure.error
        except FAULTS as fault:
            error = not_stored(attempt.job, fault)
        else:
            return AttemptEnd.ANSWERED
        await self._conclude_failed(attempt, error, facts)
        return AttemptEnd.FAILED

    async def _facts(self, attempt: JobAttempt) -> ItemFacts | None:
        """Return what to note about an item of a run; None for another job, whose document tells it."""
        if attempt.delivery.run is None:
            return None
        return await asyncio.to_thread(facts_of, attempt.engine_seconds, self.model.stored.commit)

    async def _conclude_failed(self, attempt: JobAttempt, error: Error, facts: ItemFacts | None = None) -> None:
        """Commit and report that the job has failed."""
        await self._conclude(attempt, self.committer.fail, attempt.delivery, attempt.attempt_id, error, facts)

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

    async def _drop(self, attempt: JobAttempt) -> AttemptEnd:
        deadline = await asyncio.to_thread(self.callers.deadline, attempt.job)
        if attempt.delivery.task_token is None and deadline <= datetime.now(UTC):
            await self._conclude_failed(attempt, too_late(attempt.job))
            return AttemptEnd.FAILED
        log.info("nobody waits for it: the work is dropped", extra={"jobId": attempt.job.job_id})
        await asyncio.to_thread(self.jobs.undo_attempt, attempt.job.job_id, attempt.attempt_id)
        if await asyncio.to_thread(self._end_unwanted, attempt):
            await asyncio.to_thread(self.queue.delete, attempt.delivery.receipt_handle)
        else:
            await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    async def _give_back(self, attempt: JobAttempt) -> None:
        await self._undo(attempt)
        await asyncio.to_thread(self.queue.give_back, attempt.delivery.receipt_handle)

    async def _undo(self, attempt: JobAttempt) -> None:
        if attempt.phase is not AttemptPhase.WAITING:  # once committed, there is no open attempt to undo
            await asyncio.to_thread(self.jobs.undo_attempt, attempt.job.job_id, attempt.attempt_id)


async def _complete(call: Callable[..., object], *arguments: object) -> None:
    """Run a blocking call in a thread. If cancelled meanwhile, wait for the call first, so that it can be undone."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait({calling})
        raise
