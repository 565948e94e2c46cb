"""Takes one message from its receipt until it is deleted or given back to the queue.

`Runner.handle` reads the job's row, fetches its files (`inputs`), runs the engine (`inference`) and checks the output
(`outputs`). `attempt_endings` stores the result or the error, or gives the job back.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.engines.errors import EngineDied, ServerUnavailable
from cosmos_batch.state import FINAL, Attempt, ConditionFailed, ItemJobs, JobRow, Workers
from cosmos_batch.store.s3_retries import FAULTS, may_succeed_later
from cosmos_batch.worker.attempt_endings import AttemptEndings
from cosmos_batch.worker.callers import Callers, latest_deadline
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import not_stored
from cosmos_batch.worker.inference import Inference, JobsInHand, TaskGoneError
from cosmos_batch.worker.inputs import prepare, wait_for_disk
from cosmos_batch.worker.job_attempt import AttemptEnd, AttemptPhase, JobAttempt, stage_reached
from cosmos_batch.worker.job_limits import refusal, timed_out
from cosmos_batch.worker.outputs import collect_outputs
from cosmos_batch.worker.queue import Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.task_tokens import TaskTokens

if TYPE_CHECKING:
    from cosmos_batch.engines.generator.upsampling import Upsampler

log = logging.getLogger(__name__)

Value = TypeVar("Value")

# How often an item that was planned for another deployment is received before it is planned again.
RECEIPTS_BEFORE_PLANNED_AGAIN = 5

UNPLANNED = Error(
    code="Internal",
    message="The job has no row in the state table, or was closed without a reason.",
    remedy="Start the job again.",
    retryable=True,
)


@dataclass
class Runner:
    """Handles the deliveries of a worker, each in an asyncio task of its own.

    Attributes
    ----------
    fatal
        Why no job can be served any more: the model is not loaded, or its engine has ended for good. It is noted before
        anything else is done about the failure, because AWS may be unavailable as well; then nobody can be told.
    """

    environment: WorkerEnvironment
    clients: Clients
    jobs: ItemJobs
    workers: Workers
    task_tokens: TaskTokens
    callers: Callers
    queue: Queue
    model: ResidentModel
    jobs_in_hand: JobsInHand
    inference: Inference
    endings: AttemptEndings
    upsampler: Upsampler | None = None
    fatal: Failure | None = None
    _began_several_jobs: bool = False

    async def handle(self, attempt: JobAttempt) -> AttemptEnd:
        """Handle one delivery until its job is decided or given back.

        Cancelling gives the job back at once: its attempt is undone and its message becomes visible to other workers.
        """
        try:
            return await self._handle_or_drop(attempt)
        except asyncio.CancelledError:
            log.info("given back", extra={"jobId": attempt.job.job_id})
            await self.endings.give_back(attempt)
            return AttemptEnd.NOT_DECIDED
        except Failure as failure:
            self.fatal = failure
            log.error("given back: its model cannot be loaded", extra={"jobId": attempt.job.job_id})
            await self.endings.give_back(attempt)
            raise
        except Exception as fault:
            # AWS or the disk failed, not the job. Its lease lapses, and it is tried again after its visibility timeout.
            log.exception("left in the queue for another attempt", extra={"jobId": attempt.job.job_id})
            self.queue.abandon(attempt.delivery.receipt_handle)
            if attempt.has_left_engine:
                # The inference is lost: the attempt counts, so that `maxAttempts` limits its price.
                error = not_stored(attempt.job, fault)
                await self.endings.spend(attempt, error)
            else:
                await self.endings.undo(attempt)
                if isinstance(fault, FAULTS) and may_succeed_later(fault):
                    # An outage of AWS takes none of the job's receipts (`MAX_RECEIPTS`), however long it lasts.
                    await asyncio.to_thread(self.jobs.count_give_back, attempt.job.job_id)
            raise

    async def _handle_or_drop(self, attempt: JobAttempt) -> AttemptEnd:
        try:
            return await self._handle(attempt)
        except TaskGoneError:
            return await self.endings.drop(attempt)

    async def _handle(self, attempt: JobAttempt) -> AttemptEnd:
        stage_reached("received", attempt.job)
        row = await asyncio.to_thread(self._read_row, attempt)
        if row is None:
            return AttemptEnd.NOT_DECIDED
        attempt.planned_at = row.stages["planned"]
        if row.winner is not None:
            await self.endings.finish(attempt, row)
            return AttemptEnd.NOT_DECIDED
        if (error := refusal(attempt.delivery, row, self.environment)) is not None:
            await self.endings.conclude_failed(attempt, error)
            return AttemptEnd.FAILED
        if not self.serves(attempt.job):
            return await self._pass_on(attempt)
        if not await self._renew_model(attempt):
            return AttemptEnd.FAILED
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
        """Write the loaded commits to the worker's row: `scale` compares them with the recorded revisions."""
        stored, environment = self.model.stored, self.environment
        await asyncio.to_thread(
            self.workers.loaded,
            environment.aws_batch_job_id,
            stored.model,
            environment.model_revision,
            stored.commit,
            self.model.guardrail_commits,
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
            await self.endings.give_back(attempt, seconds)
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
            await self.endings.give_back(attempt, seconds)
            return AttemptEnd.NOT_DECIDED
        reason = f"The item was planned for {attempt.job.planned_for}, which no worker runs any more."
        await asyncio.to_thread(self.callers.plan_again, row, reason)
        await asyncio.to_thread(self.queue.delete, attempt.delivery.receipt_handle)
        return AttemptEnd.NOT_DECIDED

    def _read_row(self, attempt: JobAttempt) -> JobRow | None:
        """Return the job's row, after closing an attempt that a lost worker left open.

        Returns None where no work is left: the execution is gone, the job has no row, or the job was closed without a
        winner. Then the job's error is reported, and the message is deleted.
        """
        state = self.callers.state(attempt.delivery)
        row = self.jobs.get(attempt.job.job_id)
        undecided = row is None or row.winner is None
        if undecided and state == "gone" and self.endings.end_unwanted(attempt):
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
            return self.jobs.close_lost_attempt(row)
        self.queue.delete(attempt.delivery.receipt_handle)
        return None

    async def _serve(self, attempt: JobAttempt, alone: bool) -> AttemptEnd:
        async with _temporary_folder() as workdir, self.jobs_in_hand.enter(alone):
            if not self.model.is_loaded:  # a renewal failed while this job waited for its slot
                await self.endings.give_back(attempt)
                return AttemptEnd.NOT_DECIDED
            if not self.serves(attempt.job):  # another commit was loaded while this job waited
                return await self._pass_on(attempt)
            return await self._run_attempt(attempt, workdir, alone)

    async def _run_attempt(self, attempt: JobAttempt, workdir: Path, alone: bool) -> AttemptEnd:
        began = time.monotonic()
        try:
            await wait_for_disk(attempt.job, workdir)
            await self._open_attempt(attempt, alone)
            job = await asyncio.to_thread(prepare, self.clients.s3, attempt.job, workdir)
            if self.upsampler is not None:
                job = await self.upsampler.upsample(job, workdir)
            prepared = time.monotonic() - began
            output = await self.inference.infer(attempt, job, workdir)
            self.endings.outage.answered(job)
            assert attempt.inferring_since is not None, "it was in the engine"
            timings = {"prepare": round(prepared, 3), "infer": round(time.monotonic() - attempt.inferring_since, 3)}
            attempt.phase = AttemptPhase.CONCLUDING
            outputs = await asyncio.to_thread(
                collect_outputs, self.environment, self.model, job, output, workdir, timings
            )
        except ServerUnavailable as away:
            return await self.endings.pause(attempt, away)
        except Failure as failure:
            return await self.endings.fail(attempt, failure.error)
        except ConditionFailed:
            return await self._handle(attempt)  # another attempt decided the job meanwhile
        except TimeoutError:
            return await self.endings.fail(attempt, timed_out(attempt.job, self.environment))
        except EngineDied as died:
            return await self.endings.give_back_lost(attempt, died)
        stage_reached("inferred", job)
        return await self.endings.store(attempt, outputs)

    async def _renew_model(self, attempt: JobAttempt) -> bool:
        """Load a newer copy of the model if the job wants one, once no other job is in the worker.

        Returns False if that job has failed because no newer copy is available; the earlier one is still loaded then.
        If the newer copy cannot be loaded, that job fails as well, and the worker ends (`fatal`): the earlier copy is
        not in memory any more.

        The job fails even if the cause may pass. If it were given back, it would end one worker after another. After a
        fault of AWS or of the file system, which says nothing about the model, Failure is raised and it is given back.
        """
        if not self.model.too_old_for(attempt.job):
            return True
        try:
            await self.model.find_newer(attempt.job)
            async with self.jobs_in_hand.enter(alone=True):
                await self.model.renew(attempt.job)
                await self.record_model()
        except Failure as failure:
            if not self.model.is_loaded:
                self.fatal = failure
            await self.endings.conclude_failed(attempt, failure.error)
            return False
        except Exception as fault:
            if self.model.is_loaded:
                raise
            raise Failure(
                "ModelUnavailable",
                f"A newer copy of the model could not be loaded: {type(fault).__name__}: {fault}",
                "Nothing: another worker is started, for which the jobs wait. If it happens again, see the log of "
                f"Batch job {self.environment.aws_batch_job_id}.",
                retryable=True,
            ) from fault
        return True

    async def _open_attempt(self, attempt: JobAttempt, alone: bool) -> None:
        """Open an attempt in the job's row.

        It begins before the files are probed, because hostile media can kill the worker there already.
        """
        solo = alone or self.model.engine.concurrency == 1
        name = self.environment.aws_batch_job_id
        attempt.phase = AttemptPhase.PREPARING
        if solo:
            await asyncio.to_thread(self.workers.alone_with, name, attempt.job.job_id)
        elif not self._began_several_jobs:
            self._began_several_jobs = True
            await asyncio.to_thread(self.workers.began_several_jobs, name)
        row = await _call_to_the_end(
            self.jobs.open_attempt, attempt.job.job_id, Attempt(id=attempt.attempt_id, worker=name, solo=solo)
        )
        attempt.planned_at = row.stages["planned"]
        stage_reached("started", attempt.job)


@asynccontextmanager
async def _temporary_folder() -> AsyncIterator[Path]:
    """Make a folder for a job's files, and have it removed at the end, both in a thread.

    Each of these system calls releases Python's global interpreter lock. In the event loop, for which all answers wait,
    each would wait anew for as long as the threads of other jobs have the lock. The removal is not awaited: an attempt
    that has ended could otherwise still be cancelled meanwhile, and its job be given back once more.
    """
    folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="job-", ignore_cleanup_errors=True)
    try:
        yield Path(folder.name)
    finally:
        asyncio.get_running_loop().run_in_executor(None, folder.cleanup)


async def _call_to_the_end(call: Callable[..., Value], *arguments: object) -> Value:
    """Run a blocking call in a thread. If cancelled meanwhile, wait for the call first, so that it can be undone."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        return await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait({calling})
        raise
