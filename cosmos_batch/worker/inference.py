"""Control how jobs share the engine: which are in the worker together, and one job's time in the engine.

A worker has two limits. `JobsInHand` limits how many jobs fetch their files or store their results while others are in
the engine, and lets a suspect job run alone. `Inference` limits the jobs in the engine to its `concurrency`.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Answer, GeneratorOutput
from cosmos_batch.engines.errors import EngineDied
from cosmos_batch.engines.generator.guardrails import refuse_unguarded
from cosmos_batch.engines.protocol import Engine, StepReportingEngine
from cosmos_batch.engines.reasoner.json_answers import run_with_schema
from cosmos_batch.state import Jobs
from cosmos_batch.store.s3_retries import FAULTS
from cosmos_batch.worker.callers import Callers
from cosmos_batch.worker.engine_shares import EngineShares
from cosmos_batch.worker.inputs import is_full_disk
from cosmos_batch.worker.job_attempt import JobAttempt

STEPS_PERIOD_SECONDS = 2.0

log = logging.getLogger(__name__)

Value = TypeVar("Value")


class TaskGoneError(Exception):
    """Nobody waits for the job any more, or its deadline has passed, while it was in hand."""


class JobsInHand:
    """A semaphore for `size` holders that one holder may take as a whole; a waiting exclusive holder goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._alone = False
        self._want_alone = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def enter(self, alone: bool) -> AsyncIterator[None]:
        """Wait for a free place, and hold it while the block runs; with `alone`, wait for all places and hold them."""
        await (self._enter_alone() if alone else self._enter_shared())
        try:
            yield
        finally:
            await asyncio.shield(self._leave(alone))

    async def _enter_shared(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone and not self._want_alone and self._taken < self._size)
            self._taken += 1

    async def _enter_alone(self) -> None:
        async with self._changed:
            self._want_alone += 1
            try:
                await self._changed.wait_for(lambda: not self._alone and self._taken == 0)
                self._alone = True
            finally:
                self._want_alone -= 1
                self._changed.notify_all()

    async def _leave(self, alone: bool) -> None:
        async with self._changed:
            if alone:
                self._alone = False
            else:
                self._taken -= 1
            self._changed.notify_all()


@dataclass
class Inference:
    """Runs prepared jobs in the worker's engine, at most `engine.concurrency` at a time."""

    environment: WorkerEnvironment
    engine: Engine
    jobs: Jobs
    callers: Callers

    def __post_init__(self) -> None:
        self._shares = EngineShares()
        self._engine_slots = asyncio.Semaphore(self.engine.concurrency)

    async def infer(self, attempt: JobAttempt, job: Job, workdir: Path) -> Answer | GeneratorOutput:
        """Run a prepared job in the engine, and return its answer, or the list of files that it made in `workdir`.

        Raises
        ------
        Failure
            The job or the engine is at fault, or (ServerUnavailable) a remote server is busy or away.
        EngineDied
            The engine ended with all jobs that were in it.
        TaskGoneError
            The job's execution or run ended meanwhile, or an item's deadline passed.
        TimeoutError
            The attempt took longer than `worker.attemptLimitHours`.
        """
        gone = self.callers.until_gone(attempt.delivery)
        return await _unless_gone(self._in_engine(attempt, job, workdir), gone)

    async def _in_engine(self, attempt: JobAttempt, job: Job, workdir: Path) -> Answer | GeneratorOutput:
        """Wait for a slot of the engine and hold it for the inference alone.

        Other jobs can have the slot while this one's files and prompt are fetched before, and while its output is
        checked and stored after.
        """
        limit = self.environment.worker.attempt_limit_hours * 3600
        async with self._engine_slots:
            attempt.enter_engine()
            reporting = asyncio.create_task(_report_steps(self.engine, self.jobs, job.job_id, attempt.attempt_id))
            entered = self._shares.enter()
            try:
                return await asyncio.wait_for(self._run_engine(job, workdir), limit)
            finally:
                attempt.engine_seconds = self._shares.leave(entered)
                reporting.cancel()

    async def _run_engine(self, job: Job, workdir: Path) -> Answer | GeneratorOutput:
        try:
            serving = self.environment.serving
            refuse_unguarded(self.engine, job, serving is not None and serving.guardrails_required)
            return await run_with_schema(self.engine, job, workdir)
        except (Failure, EngineDied):
            raise
        except Exception as error:
            if is_full_disk(error):  # the engine writes decoded frames to the disk
                raise
            log.exception("the engine failed", extra={"jobId": job.job_id})
            raise Failure(
                "EngineFailed",
                f"The engine failed on {job.subject}: {type(error).__name__}: {error}",
                "Try a shorter clip or another encoding; the log of Batch job "
                f"{self.environment.aws_batch_job_id} says more.",
                retryable=True,
            ) from error


async def _unless_gone(work: Awaitable[Value], gone: Awaitable[None]) -> Value:
    """Return the result of `work`. If `gone` completes first, cancel `work` and raise TaskGoneError, or its error."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        watching.result()
        raise TaskGoneError
    finally:
        for future in (working, watching):
            future.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await working


async def _report_steps(engine: Engine, jobs: Jobs, job_id: str, attempt_id: str) -> None:
    """Write the engine's progress with a job to the job's row every 2 s, until cancelled.

    A write that fails is repeated with the next number of steps.
    """
    written = None
    while isinstance(engine, StepReportingEngine):
        await asyncio.sleep(STEPS_PERIOD_SECONDS)
        steps = engine.steps(job_id)
        if steps is None or steps == written:
            continue
        try:
            await asyncio.to_thread(jobs.note_steps, job_id, attempt_id, *steps)
            written = steps
        except FAULTS:
            log.warning("steps were not noted", exc_info=True, extra={"jobId": job_id})
