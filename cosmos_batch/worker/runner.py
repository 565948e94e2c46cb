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
from cosmos_batch.worker.job_limits import refusal, server_timed_out, timed_out, too_late
from cosmos_batch.worker.job_run import JobRun, RunEnd, RunPhase, stage_reached
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

    async def handle(self, run: JobRun) -> RunEnd:
        """Handle one delivery until its job is decided or given back.

        Cancelling gives the job back at once: its attempt is undone and its message becomes visible to other workers.
        """
        try:
            return await self._handle_or_drop(run)
        except asyncio.CancelledError:
            log.info("given back", extra={"jobId": run.job.job_id})
            await self._give_back(run)
            return RunEnd.NOT_DECIDED
        except Failure:
            if not run.has_left_engine:
                log.error("given back: its model cannot be loaded", extra={"jobId": run.job.job_id})
                await self._give_back(run)
            raise
        except Exception as fault:
            # AWS or the disk failed, not the job. Its lease lapses, and it is tried again after its visibility timeout.
            log.exception("left in the queue for another attempt", extra={"jobId": run.job.job_id})
            self.queue.abandon(run.delivery.receipt_handle)
            if run.has_left_engine:  # the inference is lost: the attempt counts, so that `maxAttempts` limits its price
                error = not_stored(run.job, fault)
                await asyncio.to_thread(self.jobs.spend_attempt, run.job.job_id, run.attempt_id, error)
            else:
                await self._undo(run)
            raise

    async def _handle_or_drop(self, run: JobRun) -> RunEnd:
        try:
            return await self._handle(run)
        except TaskGoneError:
            return await self._drop(run)

    async def _handle(self, run: JobRun) -> RunEnd:
        stage_reached("received", run.job)
        row = await asyncio.to_thread(self._read_row, run)
        if row is None:
            return RunEnd.NOT_DECIDED
        if row.winner is not None:
            await self._conclude(run, self.committer.finish, run.delivery, row)
            return RunEnd.NOT_DECIDED
        if (error := refusal(run.delivery, row, self.environment)) is not None:
            await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error)
            return RunEnd.FAILED
        if not self.serves(run.job):
            return await self._pass_on(run)
        await self._renew_model(run)
        return await self._serve(run, alone=row.suspect)

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

    async def _pass_on(self, run: JobRun) -> RunEnd:
        """Leave a job to a worker that runs what the job was planned for; no attempt is spent (decision 064).

        Only `scale` knows whether this worker or the job is outdated. If `scale` has asked this worker to leave, the
        message is hidden for long enough that every worker of this deployment is told to leave as well, and a later one
        takes the job. Otherwise the job is planned again, for what is deployed now. Where `scale` has not seen the
        deployment yet, the new plan is the same as before; but each plan invokes `scale`, which sees it then.
        """
        row = await asyncio.to_thread(self.workers.get, self.environment.aws_batch_job_id)
        planned_for, job_id = run.job.planned_for, run.job.job_id
        log.info("not for this worker: it was planned for %s", planned_for, extra={"jobId": job_id})
        if row is not None and row.must_drain:
            seconds = self.environment.worker.seen_seconds
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle, seconds)
            return RunEnd.OUTDATED
        token = run.delivery.task_token
        if token is None:
            return await self._pass_on_item(run)
        reason = f"Worker {self.environment.aws_batch_job_id} does not run what the job was planned for: {planned_for}"
        await asyncio.to_thread(self.task_tokens.plan_again, job_id, token, reason)
        await asyncio.to_thread(self.queue.delete, run.delivery.receipt_handle)
        return RunEnd.NOT_DECIDED

    async def _pass_on_item(self, run: JobRun) -> RunEnd:
        """Leave an item of a run to another worker; after some receipts, have it planned for what is deployed now.

        While a deployment is under way `scale` soon finds out which workers are outdated. The note that the message was
        sent is removed before it is deleted, so that the feeding of the item's shard sends another one.
        """
        job_id = run.job.job_id
        row = await asyncio.to_thread(self.jobs.get, job_id)
        early = run.delivery.receipts < RECEIPTS_BEFORE_PLANNED_AGAIN
        if early or row is None or not await asyncio.to_thread(self.jobs.unsent, job_id):
            seconds = self.environment.worker.seen_seconds
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle, seconds)
            return RunEnd.NOT_DECIDED
        reason = f"The item was planned for {run.job.planned_for}, which no worker runs any more."
        await asyncio.to_thread(self.callers.plan_again, row, reason)
        await asyncio.to_thread(self.queue.delete, run.delivery.receipt_handle)
        return RunEnd.NOT_DECIDED

    def _read_row(self, run: JobRun) -> JobRow | None:
        """Return the job's row, with an attempt that a lost worker left open settled.

        None where no work is left: the execution is gone, the job has no row, or the job was closed without a winner.
        Its error is reported then, and the message deleted.
        """
        state = self.callers.state(run.delivery)
        row = self.jobs.get(run.job.job_id)
        undecided = row is None or row.winner is None
        if undecided and state == "gone" and self._end_unwanted(run):
            log.info("nobody waits for it", extra={"jobId": run.job.job_id})
        elif row is None:
            self.callers.report(run.delivery, Result(job_id=run.job.job_id, error=UNPLANNED))
        elif undecided and row.state in FINAL:
            # Whoever closed the job may have ended before those who wait for it were told.
            self.callers.report(run.delivery, row.result or Result(job_id=row.job_id, error=UNPLANNED))
            self.callers.count(row)
        else:
            if run.delivery.task_token is None:
                run.extend_deadline(latest_deadline(run.job, row))
            return self.jobs.settle_lost(row)
        self.queue.delete(run.delivery.receipt_handle)
        return None

    def _end_unwanted(self, run: JobRun) -> bool:
        """Close the job of an item that no run wants. Returns False if a run has come to wait for it meanwhile.

        The job of an execution is closed by `report`.
        """
        return run.delivery.task_token is not None or self.callers.cancel(run.delivery)

    async def _serve(self, run: JobRun, alone: bool) -> RunEnd:
        with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as workdir:
            async with self.slots.place(alone):
                if not self.model.is_loaded:  # a renewal failed while this job waited for its slot
                    await self._give_back(run)
                    return RunEnd.NOT_DECIDED
                if not self.serves(run.job):  # another commit was loaded while this job waited
                    return await self._pass_on(run)
                return await self._attempt(run, Path(workdir), alone)

    async def _attempt(self, run: JobRun, workdir: Path, alone: bool) -> RunEnd:
        began = time.monotonic()
        try:
            await wait_for_disk(run.job, workdir)
            await self._open(run, alone)
            job = await asyncio.to_thread(prepare, self.clients.s3, run.job, workdir)
            if self.upsampler is not None:
                job = await self.upsampler.upsample(job, workdir)
            prepared = time.monotonic() - began
            output = await self.inference.infer(run, job, workdir)
            self.outage.end()
            assert run.inferring_since is not None, "it was in the engine"
            timings = {"prepare": round(prepared, 3), "infer": round(time.monotonic() - run.inferring_since, 3)}
            run.phase = RunPhase.CONCLUDING
            outputs = await asyncio.to_thread(
                collect_outputs, self.environment, self.model, job, output, workdir, timings
            )
        except ServerUnavailable as away:
            return await self._pause(run, away)
        except Failure as failure:
            return await self._failed(run, failure.error)
        except ConditionFailed:
            return await self._handle(run)  # another attempt decided the job meanwhile
        except TimeoutError:
            return await self._failed(run, timed_out(run.job, self.environment))
        except EngineDied as died:
            return await self._lost(run, died)
        stage_reached("inferred", job)
        return await self._store(run, outputs)

    async def _renew_model(self, run: JobRun) -> None:
        """Load a newer copy of the model if the job wants one, once no other job is in the worker.

        If no newer copy can ever be loaded, only the job that wanted it fails. The model is not in memory any more, so
        this worker ends, and the next one serves the other jobs with the copy that it has.
        """
        if not self.model.too_old_for(run.job):
            return
        async with self.slots.place(alone=True):
            try:
                await self.model.renew(run.job)
            except Failure as failure:
                if not failure.error.retryable:
                    await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, failure.error)
                raise
            await self.record_model()

    async def _open(self, run: JobRun, alone: bool) -> None:
        """Open an attempt in the job's row.

        It begins before the files are probed, because hostile media can kill the worker there already.
        """
        solo = alone or self.model.engine.concurrency == 1
        name = self.environment.aws_batch_job_id
        run.phase = RunPhase.PREPARING
        if solo:
            await asyncio.to_thread(self.workers.alone_with, name, run.job.job_id)
        elif not self._began_in_company:
            self._began_in_company = True
            await asyncio.to_thread(self.workers.began_in_company, name)
        await _complete(self.jobs.open_attempt, run.job.job_id, Attempt(id=run.attempt_id, worker=name, solo=solo))
        stage_reached("started", run.job)

    async def _pause(self, run: JobRun, away: ServerUnavailable) -> RunEnd:
        """Give a job back whose remote server is busy or away; it waits in its queue.

        The attempt does not count, unless the server has broken the job off too often.
        """
        self.outage.begin(away)
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        if row is None:
            return await self._drop(run)
        interrupted = away.kind == "interrupted"
        if interrupted and row.interruptions >= FORGIVEN_INTERRUPTIONS:
            return await self._failed(run, away.error)
        seconds = pause_seconds(run.job, row.pauses, away)
        if seconds is None:
            error = server_timed_out(run.job, away.error.message)
            await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error)
            return RunEnd.FAILED
        log.info("waits %d s: %s", seconds, away.error.message, extra={"jobId": run.job.job_id})
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        waiting = Waiting(reason=away.error.message, until=until.isoformat(timespec="seconds"))
        await asyncio.to_thread(self.jobs.pause, run.job.job_id, run.attempt_id, waiting, interrupted)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle, seconds)
        return RunEnd.NOT_DECIDED

    async def _failed(self, run: JobRun, error: Error) -> RunEnd:
        """Give the job back for another attempt if its error may pass and attempts are left, else commit the error."""
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        attempts = row.attempts if row is not None else 0
        if error.retryable and attempts < self.environment.worker.max_attempts:
            await asyncio.to_thread(self.jobs.spend_attempt, run.job.job_id, run.attempt_id, error)
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)
            return RunEnd.NOT_DECIDED
        facts = await self._facts(run)
        await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error, facts)
        return RunEnd.FAILED

    async def _lost(self, run: JobRun, died: EngineDied) -> RunEnd:
        """Give back a job that was in the engine when the engine's process ended.

        Any of the jobs that were in it may be the cause. So each is a suspect now, and its next attempt runs alone.
        """
        log.warning("lost with the engine", extra={"jobId": run.job.job_id})
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        if row is not None and row.open_attempt is not None and row.open_attempt.id == run.attempt_id:
            await asyncio.to_thread(self.jobs.settle_lost, row, died.error)
        if died.for_good:
            raise Failure.of(died.error)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)
        return RunEnd.NOT_DECIDED

    async def _store(self, run: JobRun, outputs: JobOutputs) -> RunEnd:
        """Commit the outputs as the job's result; if that is refused or its deadline passes, commit an error."""
        facts = await self._facts(run)
        try:
            await self._conclude(run, self.committer.succeed, run.delivery, run.attempt_id, outputs, facts)
        except Failure as failure:
            error = failure.error
        except FAULTS as fault:
            error = not_stored(run.job, fault)
        else:
            return RunEnd.ANSWERED
        await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error, facts)
        return RunEnd.FAILED

    async def _facts(self, run: JobRun) -> ItemFacts | None:
        """Return what to note about an item of a run; None for another job, whose document tells it."""
        if run.delivery.run is None:
            return None
        return await asyncio.to_thread(facts_of, run.engine_seconds, self.model.stored.commit)

    async def _conclude(self, run: JobRun, conclusion: Callable[..., None], *arguments: object) -> None:
        """Call a method of the committer; while AWS is unavailable, repeat it until the job's deadline.

        Raises
        ------
        FAULTS
            AWS refused a request, or the deadline has passed.
        TaskGoneError
            The execution ended before a result was decided.
        """
        run.phase = RunPhase.CONCLUDING
        wait = FIRST_WAIT
        while True:
            try:
                await asyncio.to_thread(conclusion, *arguments)
            except FAULTS as fault:
                left = (run.job.deadline - datetime.now(UTC)).total_seconds()
                if not may_succeed_later(fault) or left < wait:
                    raise
                log.warning("not stored yet: tried again", exc_info=True, extra={"jobId": run.job.job_id})
            else:
                run.phase = RunPhase.CONCLUDING
                return
            run.phase = RunPhase.RETRYING
            await asyncio.sleep(wait * random.uniform(0.75, 1))
            wait = min(2 * wait, LONGEST_WAIT)
            await asyncio.to_thread(self._raise_if_gone, run)

    def _raise_if_gone(self, run: JobRun) -> None:
        """Raise TaskGoneError if nobody waits for the job and no result was decided.

        A token is gone as well when the result was reported before. Then only the row is left to be written.
        """
        if self.callers.state(run.delivery) != "gone":
            return
        try:
            row = self.jobs.get(run.job.job_id)
        except FAULTS:
            return  # not known: the next try shows it
        if row is None or row.winner is None:
            raise TaskGoneError

    async def _drop(self, run: JobRun) -> RunEnd:
        deadline = await asyncio.to_thread(self.callers.deadline, run.job)
        if run.delivery.task_token is None and deadline <= datetime.now(UTC):
            await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, too_late(run.job))
            return RunEnd.FAILED
        log.info("nobody waits for it: the work is dropped", extra={"jobId": run.job.job_id})
        await asyncio.to_thread(self.jobs.undo_attempt, run.job.job_id, run.attempt_id)
        if await asyncio.to_thread(self._end_unwanted, run):
            await asyncio.to_thread(self.queue.delete, run.delivery.receipt_handle)
        else:
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)
        return RunEnd.NOT_DECIDED

    async def _give_back(self, run: JobRun) -> None:
        await self._undo(run)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)

    async def _undo(self, run: JobRun) -> None:
        if run.phase is not RunPhase.WAITING:  # once committed, there is no open attempt to undo
            await asyncio.to_thread(self.jobs.undo_attempt, run.job.job_id, run.attempt_id)


async def _complete(call: Callable[..., object], *arguments: object) -> None:
    """Run a blocking call in a thread. If cancelled meanwhile, wait for the call first, so that it can be undone."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait({calling})
        raise
