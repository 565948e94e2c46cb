"""One message, from its receipt to its deletion or its way back into the queue."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, Made, Result
from cosmos_batch.engines.errors import EngineDied, ServerUnavailable
from cosmos_batch.engines.generator.guardrails import refuse_unguarded
from cosmos_batch.engines.reasoner.json_answers import run_with_schema
from cosmos_batch.state import FINAL, Attempt, ConditionFailed, JobRow, Jobs, Waiting, Workers
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.commit import Committer
from cosmos_batch.worker.inputs import is_full_disk, prepare, wait_for_disk
from cosmos_batch.worker.job_limits import refusal, timed_out, waited_in_vain
from cosmos_batch.worker.outcomes import present
from cosmos_batch.worker.queue import Delivery, Queue
from cosmos_batch.worker.resident_model import ResidentModel
from cosmos_batch.worker.server_outages import FORGIVEN_INTERRUPTIONS, Outage, pause_seconds
from cosmos_batch.worker.slots import Slots
from cosmos_batch.worker.stages import reached
from cosmos_batch.worker.steps import tell_steps
from cosmos_batch.worker.task_tokens import TaskTokens
from cosmos_batch.worker.waiting import TaskGoneError, to_its_end, unless_gone

if TYPE_CHECKING:
    from cosmos_batch.engines.generator.upsampling import Upsampler

log = logging.getLogger(__name__)


UNPLANNED = Error(
    code="Internal",
    message="The job has no row in the state table, or was closed without a reason.",
    remedy="Start the job again.",
    retryable=True,
)


class End(Enum):
    """How a run ended."""

    ANSWERED = auto()
    FAILED = auto()  # decided too, but it says nothing of the engine's health
    NOT_DECIDED = auto()  # given back, or nobody waited for it
    OUTDATED = auto()  # given back: it is for a worker of a later deployment, and `scale` has asked this one to leave


class Phase(Enum):
    """Where a run is; a worker that stops asks."""

    WAITING = auto()  # nothing is lost if it is given back now
    PREPARING = auto()  # its files are fetched and its prompt is written: little is lost, but its attempt is counted
    INFERRING = auto()
    CONCLUDING = auto()  # decided or about to be: finishing is faster than doing it all again


@dataclass
class Run:
    """One delivery under way."""

    delivery: Delivery
    attempt_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    phase: Phase = Phase.WAITING
    received_at: float = field(default_factory=time.monotonic)
    inferring_since: float | None = None  # time.monotonic

    @property
    def job(self) -> Job:
        return self.delivery.job

    def is_slow_to_prepare(self, seconds: float) -> bool:
        """Whether it was received so long ago, and is not ready for the engine."""
        unready = self.phase in (Phase.WAITING, Phase.PREPARING)
        return unready and time.monotonic() - self.received_at > seconds


@dataclass
class Runner:
    """Takes deliveries through the protocol of the design, each in a task of its own."""

    environment: WorkerEnvironment
    clients: Clients
    jobs: Jobs
    workers: Workers
    tasks: TaskTokens
    queue: Queue
    committer: Committer
    model: ResidentModel
    slots: Slots
    upsampler: Upsampler | None = None
    _had_company: bool = False

    def __post_init__(self) -> None:
        self.outage = Outage(self.model.engine)
        self._engine_places = asyncio.Semaphore(self.model.engine.concurrency)

    async def handle(self, run: Run) -> End:
        """Bring one delivery to an end.

        Cancelling gives the job back at once: its attempt is undone, its message visible to others.
        """
        try:
            return await self._handle(run)
        except asyncio.CancelledError:
            log.info("given back", extra={"jobId": run.job.job_id})
            await self._give_back(run)
            return End.NOT_DECIDED
        except Failure:
            if run.phase is not Phase.CONCLUDING:
                log.error("given back: its model cannot be loaded", extra={"jobId": run.job.job_id})
                await self._give_back(run)
            raise
        except Exception:
            # AWS or the disk failed us, not the job: its lease lapses, and it is tried again when that may have passed.
            log.exception("left for another try", extra={"jobId": run.job.job_id})
            self.queue.abandon(run.delivery.receipt_handle)
            await self._undo(run)
            raise

    async def _handle(self, run: Run) -> End:
        reached("received", run.job)
        row = await asyncio.to_thread(self._look, run)
        if row is None:
            return End.NOT_DECIDED
        if row.winner is not None:
            await self._conclude(run, self.committer.finish, run.delivery, row)
            return End.NOT_DECIDED
        if (error := refusal(run.delivery, row, self.environment)) is not None:
            await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error)
            return End.FAILED
        if not self.serves(run.job):
            return await self._pass_on(run)
        await self._renew_model(run)
        return await self._serve(run, alone=row.suspect)

    def serves(self, job: Job) -> bool:
        """Whether the job was planned for what this worker runs."""
        planned_for = job.planned_for
        if planned_for is None:
            return True
        if planned_for.configuration != self.environment.configuration:
            return False
        if planned_for.revision is None or not self.model.is_loaded:
            return True
        return planned_for.revision == self.model.stored.commit

    async def tell_model(self) -> None:
        """Write down which commit is loaded: `scale` compares it with the recorded one."""
        stored, environment = self.model.stored, self.environment
        await asyncio.to_thread(
            self.workers.loaded, environment.aws_batch_job_id, stored.model, environment.model_revision, stored.commit
        )

    async def _pass_on(self, run: Run) -> End:
        """Leave a job to a worker that runs what the job was planned for; no attempt is spent.

        Only `scale` knows whether this worker or the job is outdated. If it has asked this worker to leave, a later one
        will take the job, once every worker of this deployment has had the time to hear the same. If not, the job is
        planned again: for what is deployed now, or, where `scale` has not seen the deployment yet, for the same as
        before; `scale` sees it then, because each plan calls it.
        """
        row = await asyncio.to_thread(self.workers.get, self.environment.aws_batch_job_id)
        planned_for, job_id = run.job.planned_for, run.job.job_id
        log.info("not for this worker: it was planned for %s", planned_for, extra={"jobId": job_id})
        if row is not None and row.must_drain:
            seconds = self.environment.worker.seen_seconds
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle, seconds)
            return End.OUTDATED
        reason = f"Worker {self.environment.aws_batch_job_id} does not run what the job was planned for: {planned_for}"
        await asyncio.to_thread(self.tasks.plan_again, job_id, run.delivery.task_token, reason)
        await asyncio.to_thread(self.queue.delete, run.delivery.receipt_handle)
        return End.NOT_DECIDED

    def _look(self, run: Run) -> JobRow | None:
        """The job's row, its lost attempt settled; None where there is nothing left to do for the job."""
        heard = self.tasks.heartbeat(run.job.job_id, run.delivery.task_token)
        row = self.jobs.get(run.job.job_id)
        undecided = row is None or row.winner is None
        if undecided and heard == "gone":
            log.info("nobody waits for it", extra={"jobId": run.job.job_id})
        elif row is None:
            self.tasks.report(run.delivery.task_token, Result(job_id=run.job.job_id, error=UNPLANNED))
        elif undecided and row.state in FINAL:
            # Closed by another, who may have died before he could say so.
            self.tasks.report(run.delivery.task_token, row.result or Result(job_id=row.job_id, error=UNPLANNED))
        else:
            return self.jobs.settle_lost(row)
        self.queue.delete(run.delivery.receipt_handle)
        return None

    async def _serve(self, run: Run, alone: bool) -> End:
        with tempfile.TemporaryDirectory(prefix="job-", ignore_cleanup_errors=True) as workdir:
            async with self.slots.place(alone):
                if not self.model.is_loaded:  # its renewal failed while we waited
                    await self._give_back(run)
                    return End.NOT_DECIDED
                if not self.serves(run.job):  # another commit was loaded while we waited
                    return await self._pass_on(run)
                return await self._attempt(run, Path(workdir), alone)

    async def _attempt(self, run: Run, workdir: Path, alone: bool) -> End:
        began = time.monotonic()
        try:
            await wait_for_disk(run.job, workdir)
            await self._open(run, alone)
            job = await asyncio.to_thread(prepare, self.clients.s3, run.job, workdir)
            if self.upsampler is not None:
                job = await self.upsampler.upsample(job, workdir)
            prepared = time.monotonic() - began
            answer = await self._infer(run, job, workdir)
            self.outage.over()
            assert run.inferring_since is not None, "it was in the engine"
            timings = {"prepare": round(prepared, 3), "infer": round(time.monotonic() - run.inferring_since, 3)}
            run.phase = Phase.CONCLUDING
            outcome = await asyncio.to_thread(present, self.environment, self.model, job, answer, workdir, timings)
        except ServerUnavailable as away:
            return await self._pause(run, away)
        except Failure as failure:
            return await self._failed(run, failure.error)
        except ConditionFailed:
            return await self._handle(run)  # decided by another meanwhile
        except TaskGoneError:
            return await self._drop(run)
        except TimeoutError:
            return await self._failed(run, timed_out(run.job, self.environment))
        except EngineDied as died:
            return await self._lost(run, died)
        reached("inferred", job)
        await self._conclude(run, self.committer.succeed, run.delivery, run.attempt_id, outcome)
        return End.ANSWERED

    async def _renew_model(self, run: Run) -> None:
        """Where the job wants a newer copy of the model than the one in memory, load it when no other job is in it.

        Where no newer copy will ever be had, the job that asked for one fails, and only that one: the model is not in
        memory any more, so this worker ends, and the next one serves the others with the copy that is there.
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
            await self.tell_model()

    async def _open(self, run: Run, alone: bool) -> None:
        """Count an attempt. It begins before the file is looked at: hostile media may kill us there too."""
        solo = alone or self.model.engine.concurrency == 1
        name = self.environment.aws_batch_job_id
        run.phase = Phase.PREPARING
        if solo:
            await asyncio.to_thread(self.workers.alone_with, name, run.job.job_id)
        elif not self._had_company:
            self._had_company = True
            await asyncio.to_thread(self.workers.began_in_company, name)
        await to_its_end(self.jobs.open_attempt, run.job.job_id, Attempt(id=run.attempt_id, worker=name, solo=solo))
        reached("started", run.job)

    async def _infer(self, run: Run, job: Job, workdir: Path) -> Answer | Made:
        return await unless_gone(
            self._in_engine(run, job, workdir), self.tasks.until_gone(job.job_id, run.delivery.task_token)
        )

    async def _in_engine(self, run: Run, job: Job, workdir: Path) -> Answer | Made:
        """Wait for a place in the engine, and hold it for the inference alone: neither fetching the files and writing
        the prompt, which come before, nor looking at what was made and storing it, which come after, keep it from
        another job."""
        limit = self.environment.worker.attempt_limit_hours * 3600
        async with self._engine_places:
            run.phase, run.inferring_since = Phase.INFERRING, time.monotonic()
            telling = asyncio.create_task(tell_steps(self.model.engine, self.jobs, job.job_id, run.attempt_id))
            try:
                return await asyncio.wait_for(self._ask_engine(job, workdir), limit)
            finally:
                telling.cancel()

    async def _ask_engine(self, job: Job, workdir: Path) -> Answer | Made:
        try:
            serving = self.environment.serving
            refuse_unguarded(self.model.engine, job, serving is not None and serving.guardrails_required)
            return await run_with_schema(self.model.engine, job, workdir)
        except (Failure, EngineDied):
            raise
        except Exception as error:
            if is_full_disk(error):  # it writes down what it decoded
                raise
            log.exception("the engine failed", extra={"jobId": job.job_id})
            raise Failure(
                "EngineFailed",
                f"The engine failed on {job.subject}: {type(error).__name__}: {error}",
                "Try a shorter clip or another encoding; the log of Batch job "
                f"{self.environment.aws_batch_job_id} says more.",
                retryable=True,
            ) from error

    async def _pause(self, run: Run, away: ServerUnavailable) -> End:
        """A server was busy or away: the job waits in its queue, and neither an attempt is spent nor a place taken."""
        self.outage.noticed(away)
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        if row is None:
            return await self._drop(run)
        interrupted = away.kind == "interrupted"
        if interrupted and row.interruptions >= FORGIVEN_INTERRUPTIONS:
            return await self._failed(run, away.error)
        seconds = pause_seconds(run.job, row.pauses, away)
        if seconds is None:
            error = waited_in_vain(run.job, away.error.message)
            await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error)
            return End.FAILED
        log.info("waits %d s: %s", seconds, away.error.message, extra={"jobId": run.job.job_id})
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        waiting = Waiting(reason=away.error.message, until=until.isoformat(timespec="seconds"))
        await asyncio.to_thread(self.jobs.pause, run.job.job_id, run.attempt_id, waiting, interrupted)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle, seconds)
        return End.NOT_DECIDED

    async def _failed(self, run: Run, error: Error) -> End:
        """An attempt failed: once more, if that may help and attempts are left; else for good."""
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        spent = row.attempts if row is not None else 0
        if error.retryable and spent < self.environment.worker.max_attempts:
            await asyncio.to_thread(self.jobs.spend_attempt, run.job.job_id, run.attempt_id, error)
            await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)
            return End.NOT_DECIDED
        await self._conclude(run, self.committer.fail, run.delivery, run.attempt_id, error)
        return End.FAILED

    async def _lost(self, run: Run, died: EngineDied) -> End:
        """The engine died with every job that was in it: each is a suspect and runs alone next."""
        log.warning("lost with the engine", extra={"jobId": run.job.job_id})
        row = await asyncio.to_thread(self.jobs.get, run.job.job_id)
        if row is not None and row.open_attempt is not None and row.open_attempt.id == run.attempt_id:
            await asyncio.to_thread(self.jobs.settle_lost, row, died.error)
        if died.for_good:
            raise Failure.of(died.error)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)
        return End.NOT_DECIDED

    async def _conclude(self, run: Run, conclusion: Callable[..., None], *arguments: object) -> None:
        run.phase = Phase.CONCLUDING
        await asyncio.to_thread(conclusion, *arguments)

    async def _drop(self, run: Run) -> End:
        log.info("its execution is gone, the work is dropped", extra={"jobId": run.job.job_id})
        await asyncio.to_thread(self.jobs.undo_attempt, run.job.job_id, run.attempt_id)
        await asyncio.to_thread(self.queue.delete, run.delivery.receipt_handle)
        return End.NOT_DECIDED

    async def _give_back(self, run: Run) -> None:
        await self._undo(run)
        await asyncio.to_thread(self.queue.give_back, run.delivery.receipt_handle)

    async def _undo(self, run: Run) -> None:
        if run.phase is not Phase.WAITING:  # once committed, there is no open attempt to undo
            await asyncio.to_thread(self.jobs.undo_attempt, run.job.job_id, run.attempt_id)
