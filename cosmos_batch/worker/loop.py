"""The loop of a worker: it receives as many messages as it can serve, leaves without work, and stops on SIGTERM."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Iterator, Mapping
from datetime import UTC, datetime

from cosmos_batch.contract.metrics import ENGINE_START_PHASES, PHASE, START_PHASES, START_SECONDS, embedded
from cosmos_batch.engines.protocol import CompilingEngine
from cosmos_batch.planning.pace import narrowed, weight_of
from cosmos_batch.state import WorkerRow
from cosmos_batch.store.s3_retries import FAULTS, may_succeed_later
from cosmos_batch.worker.aws_outages import AwsOutage
from cosmos_batch.worker.job_attempt import AttemptEnd, AttemptPhase, JobAttempt
from cosmos_batch.worker.pace import PaceMeter
from cosmos_batch.worker.queue import InvalidMessage, NewerSchema, read_message
from cosmos_batch.worker.runner import Runner

POLL_SECONDS = 5  # on SIGTERM a receive under way is awaited; it may take this much of the 30 s until Batch kills
LAST_POLL_SECONDS = 20  # the longest poll of SQS; a long poll queries all of its servers
PREPARED_AT_ONCE, PREPARED_SOON_SECONDS = 8, 0.3  # see `WorkerLoop._room`
STOP_SECONDS = 20  # jobs that can be finished within this time after SIGTERM are finished

log = logging.getLogger(__name__)


class WorkerLoop:
    """Serves one queue with the one model that is loaded."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.boot_seconds = 0.0  # the time from the start of its process to its first call to AWS
        self._workers = runner.workers
        self._name = runner.environment.aws_batch_job_id
        self._settings = runner.environment.worker
        self._attempts: dict[asyncio.Task[AttemptEnd], JobAttempt] = {}
        self._pace = PaceMeter()
        self._aws_outage = AwsOutage()
        self._answered = 0
        self._draining = self._said_that_it_drains = False
        self._takes_its_leaving_back = False  # whether its row says that it leaves, though it serves on
        self._keep = False  # whether `scale` has asked this worker to stay without work (`warmWorkers`)
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._busy_at = time.monotonic()  # when there was work last
        self._only_pauses = False  # whether the last attempt that ended was paused

    async def serve(self) -> None:
        """Serve until there is no work, or until `stop` is called. Raises Failure where the model can serve no job."""
        await self._announce_ready()
        reporting = asyncio.create_task(self._keep_reporting())
        try:
            await self._receive_until_done()
            await self._finish_attempts()
        finally:
            reporting.cancel()
            with contextlib.suppress(*FAULTS):  # `scale` must learn why the worker ends, not that a report has failed
                await self._report()
        if self.runner.fatal is not None:
            raise self.runner.fatal

    def stop(self) -> None:
        """Take no more jobs, and give back those that cannot be finished in time (SIGTERM, or a Spot notice)."""
        log.info("stopping: %d jobs in hand", len(self._attempts))
        self._stopping.set()
        self._wake.set()

    async def unless_stopped(self, work: Awaitable[None]) -> bool:
        """Wait for `work` and return True; return False if `stop` is called first, while `work` goes on."""
        working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if working.done():
            working.result()
        return working.done()

    async def _announce_ready(self) -> None:
        """Record in the worker's row that it takes jobs, with the model that it has loaded, and how long it started."""
        await self.runner.record_model()
        row = await asyncio.to_thread(self._workers.ready, self._name)
        if row.must_drain:
            await self._drain("`scale` asked for it while the model was loaded")
        self._log_start(row)
        if row.submitted_at is not None:
            cold_start = (datetime.now(UTC) - datetime.fromisoformat(row.submitted_at)).total_seconds()
            await asyncio.to_thread(self._workers.measured, cold_start_seconds=round(cold_start, 1))

    def _log_start(self, row: WorkerRow) -> None:
        """Log how long each phase of the start took, in one line for a person and one for each metric."""
        model, pipeline = self.runner.model, self.runner.environment.pipeline
        engine: Mapping[str, float] = model.engine.startup_seconds if isinstance(model.engine, CompilingEngine) else {}
        seconds = {**_seconds_before_load(row, self.boot_seconds), **model.load_seconds, **engine}
        log.info("ready to serve: %s", ", ".join(f"{phase} {value:.1f} s" for phase, value in seconds.items()))
        for phase in (*START_PHASES, *ENGINE_START_PHASES):
            if phase in seconds:
                fields = embedded(pipeline, {START_SECONDS: seconds[phase]}, "Seconds", **{PHASE: phase})
                log.info("start: %s took %.1f s", phase, seconds[phase], extra=fields)

    async def _receive_until_done(self) -> None:
        while not self._stopping.is_set() and self.runner.fatal is None:
            if self._draining:
                return
            if self._room <= 0:
                await self._wait_for_change(PREPARED_SOON_SECONDS)
            elif self._idle_for(self._settings.idle_seconds):
                if self._attempts:  # they will be paused as well, or go on to the engine
                    await self._wait_for_change(POLL_SECONDS)
                elif await self._leave():
                    return
            elif self._aws_outage.is_on:
                await self._wait_for_aws()
            elif self.runner.endings.outage.is_on:
                await self._wait_for_server()
            else:
                await self._receive(POLL_SECONDS)

    @property
    def _room(self) -> int:
        """Return how many more jobs to receive.

        As many as the engine has places for, not counting jobs that have left the engine; and one more while a job is
        being prepared (its files fetched, its prompt written) for longer than a receive takes. No more than that,
        because a message in hand is hidden from other workers. No more than twice the engine's places are in hand,
        those that store their results included. With an engine of one place there is one job in hand, so that a crash
        can only be that job's fault.

        While `PREPARED_AT_ONCE` jobs are on their way to the engine, none is received. Each has threads that share one
        lock in Python with all others of the worker. While clips were decoded in such threads, the first of hundreds
        of jobs reached the engine only after seconds; since processes decode them, more than eight at once gained
        nothing (decision 055). Jobs that were received more than `PREPARED_SOON_SECONDS` ago are not counted. They wait
        for S3, or for another job, and an engine that is faster than their files must not run dry.
        """
        places = self.runner.model.engine.concurrency
        if places == 1:
            return 1 - len(self._attempts)
        unfinished = [attempt for attempt in self._attempts.values() if attempt.phase is not AttemptPhase.CONCLUDING]
        one_more = any(attempt.is_slow_to_prepare(POLL_SECONDS) for attempt in unfinished)
        preparing = sum(
            attempt.is_before_engine and not attempt.is_slow_to_prepare(PREPARED_SOON_SECONDS) for attempt in unfinished
        )
        return min(places + one_more - len(unfinished), PREPARED_AT_ONCE - preparing, 2 * places - len(self._attempts))

    def _idle_for(self, seconds: float) -> bool:
        """Return whether there was no work for `seconds`.

        While a remote server is unavailable, jobs that are received only to be paused again do not count as work.
        """
        working = any(not self._will_be_paused(attempt) for attempt in self._attempts.values())
        return not self._keep and not working and time.monotonic() - self._busy_at >= seconds

    def _will_be_paused(self, attempt: JobAttempt) -> bool:
        """Return whether a job will probably be paused, as the last one was. One that is in the engine is served."""
        return self._only_pauses and attempt.is_before_engine

    async def _wait_for_change(self, seconds: float | None = None) -> None:
        """Wait until a job enters the engine or ends, or the worker is stopped or drained.

        It takes at most `seconds`; None is no limit.
        """
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _wait_for_server(self) -> None:
        """Take no job while the remote server is unavailable. If that lasts, the worker leaves as if it had no work."""
        outage = self.runner.endings.outage
        if seconds := outage.seconds_until_probe:
            await self._wait_for_change(min(seconds, POLL_SECONDS))
        else:
            await outage.probe()

    async def _wait_for_aws(self) -> None:
        """Take no job while AWS is unavailable. If that lasts, the worker leaves as if it had no work."""
        if seconds := self._aws_outage.seconds_until_probe:
            await self._wait_for_change(min(seconds, POLL_SECONDS))
        else:
            await self._aws_outage.probe(self._report)

    async def _leave(self) -> bool:
        """Announce in the worker's row that it leaves, then poll the queue once more. Returns whether it leaves.

        `scale` counted on this worker until the announcement, so a message sent before it may have no other worker.
        While jobs are paused again and again, or AWS is unavailable, that poll would only find one of them. A worker
        that cannot announce it leaves all the same.
        """
        outage = self.runner.endings.outage
        row = None
        with self._outage_on_fault("leaving without an announcement"):
            row = await asyncio.to_thread(self._workers.draining, self._name, outage.waiting)
        if row is None or row.must_drain:
            return True  # other workers take what comes
        self._keep = row.keep
        wait = min(LAST_POLL_SECONDS, max(1, self._settings.idle_seconds))
        useless = outage.is_on or self._aws_outage.is_on or self._only_pauses
        if not self._keep and (useless or await self._receive(wait) == 0):
            log.info("no work that can be done for %d s: leaving", self._settings.idle_seconds)
            return True
        self._takes_its_leaving_back = True
        with self._outage_on_fault("`scale` does not count on this worker until its next report"):
            await self._take_leaving_back()
        return False

    async def _take_leaving_back(self) -> None:
        """Announce that the worker serves on, if its row says that it leaves."""
        if self._takes_its_leaving_back:
            await asyncio.to_thread(self._workers.ready, self._name)
            self._takes_its_leaving_back = False

    async def _receive(self, wait_seconds: int) -> int:
        """Receive once and start the jobs. Returns how many messages came.

        A fault of AWS that may pass does not end the worker, whose jobs in hand would then be inferred again.
        """
        wait = min(wait_seconds, POLL_SECONDS) if self._attempts else wait_seconds
        messages: list[dict[str, str]] = []
        with self._outage_on_fault("no message can be received"):
            messages = await asyncio.to_thread(self.runner.queue.receive, self._room, wait)
        for message in messages:
            await self._accept_or_abandon(message)
        return len(messages)

    @contextlib.contextmanager
    def _outage_on_fault(self, consequence: str) -> Iterator[None]:
        """Begin an outage of AWS if the block raises a fault of AWS that may pass, and go on after the block."""
        try:
            yield
        except FAULTS as fault:
            if not may_succeed_later(fault):
                raise
            log.warning("%s: %s", consequence, fault)
            self._aws_outage.begin()

    async def _accept_or_abandon(self, message: dict[str, str]) -> None:
        """Accept a message. After a fault of AWS it is visible again when its visibility timeout has passed."""
        try:
            await self._accept(message)
        except FAULTS as fault:
            log.warning("left in the queue: %s", fault, extra={"messageId": message["MessageId"]})
            self.runner.queue.abandon(message["ReceiptHandle"])
            if may_succeed_later(fault):
                self._aws_outage.begin()

    async def _accept(self, message: dict[str, str]) -> None:
        """Start the job of a message, or give it back if its schema is newer than this code or the worker stops.

        A message that cannot be read is deleted, and its caller is told.
        """
        handle = message["ReceiptHandle"]
        try:
            delivery = read_message(message)
        except NewerSchema as newer:
            await self._drain(f"a job has {newer}")
            await asyncio.to_thread(self.runner.queue.give_back, handle, self._settings.seen_seconds)
            return
        except InvalidMessage as invalid:
            log.error("a message in the queue is not a job", extra={"messageId": message["MessageId"]})
            await asyncio.to_thread(self._refuse, handle, invalid)
            return
        if self._stopping.is_set() or self._draining or self.runner.fatal is not None:
            # The receive was under way when the worker was told to stop.
            await self.runner.endings.give_back(JobAttempt(delivery))
            return
        self._start(JobAttempt(delivery, when_in_engine=self._wake.set))

    def _refuse(self, handle: str, invalid: InvalidMessage) -> None:
        """Delete a message that cannot be read, and fail its execution if the message has a task token."""
        if invalid.task_token is not None:
            with contextlib.suppress(Exception):  # the execution may be gone
                self.runner.task_tokens.fail(invalid.task_token, invalid.error)
        self.runner.queue.delete(handle)

    def _start(self, attempt: JobAttempt) -> None:
        self._pace.began(attempt.attempt_id)
        task = asyncio.create_task(self.runner.handle(attempt))
        self._attempts[task] = attempt
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[AttemptEnd]") -> None:
        """Account for an attempt's end: in the pace, in the time without work, and in what is reported to `scale`."""
        attempt = self._attempts.pop(task)
        end = None if task.cancelled() or task.exception() is not None else task.result()
        answered, paused = end is AttemptEnd.ANSWERED, end is AttemptEnd.PAUSED
        self._pace.ended(attempt.attempt_id, weight_of(attempt.job) if answered else None)
        if not (paused and self._only_pauses):
            # A first pause still counts as work; pauses after it do not, so that the idle time goes on.
            self._busy_at = time.monotonic()
        self._only_pauses = paused
        self._wake.set()
        if task.cancelled():
            return
        self._aws_outage.job_ended(task.exception())
        if end is AttemptEnd.OUTDATED:
            self._reporting_now = asyncio.create_task(self._report())  # reads `must_drain`
        elif answered:
            self._count_answer()

    def _count_answer(self) -> None:
        self._answered += 1
        if self._answered == 1:
            # Reported at once: `scale` counts a worker that has answered as a success, even if it ends right after.
            self._reporting_now = asyncio.create_task(self._report())

    async def _finish_attempts(self) -> None:
        """Finish the jobs in hand; when stopped, only those that can be finished in time, and give the others back."""
        if self.runner.fatal is None:
            await self.unless_stopped(self._wait_for_attempts(None))
        if self._attempts:
            await asyncio.sleep(0)  # a task that is cancelled before its first step cannot give its job back
            self._give_back_unfinishable()
            await self._wait_for_attempts(STOP_SECONDS)
        await self._cancel_what_does_not_end()

    async def _cancel_what_does_not_end(self) -> None:
        """Wait for jobs whose result is being stored; cancel the others, and those for which AWS fails meanwhile."""
        cancelled: set[asyncio.Task[AttemptEnd]] = set()
        while self._attempts:
            for task, attempt in self._attempts.items():
                if attempt.phase is not AttemptPhase.CONCLUDING and task not in cancelled:
                    task.cancel()
                    cancelled.add(task)
            await self._wait_for_attempts(1.0)

    async def _wait_for_attempts(self, seconds: float | None) -> None:
        if self._attempts:
            await asyncio.wait(list(self._attempts), timeout=seconds)

    def _give_back_unfinishable(self) -> None:
        """Cancel the jobs that cannot be finished before the worker is killed; `Runner.handle` gives them back."""
        for task, attempt in list(self._attempts.items()):
            if attempt.is_before_engine or (
                attempt.phase is AttemptPhase.INFERRING and not self._can_finish_in_time(attempt)
            ):
                task.cancel()

    def _can_finish_in_time(self, attempt: JobAttempt) -> bool:
        """Return whether a job in the engine will probably be done in `STOP_SECONDS`; False if no pace is known.

        The jobs in hand share the engine, so the time that a job takes alone is multiplied by their number.
        """
        measure = self._pace.measure
        if measure is None or attempt.inferring_since is None:
            return False
        expected = measure.seconds_per_unit * weight_of(attempt.job) * max(1, len(self._attempts))
        return expected - (time.monotonic() - attempt.inferring_since) < STOP_SECONDS

    async def _keep_reporting(self) -> None:
        while True:
            await asyncio.sleep(self._settings.seen_seconds)
            with contextlib.suppress(Exception):  # repeated after the next period
                await self._report()

    async def _report(self) -> None:
        server_answers = self.runner.endings.outage.server_answers
        row = await asyncio.to_thread(self._workers.seen, self._name, self._answered, server_answers)
        await asyncio.to_thread(self._record_pace)
        await self._take_leaving_back()
        self._keep = row.keep
        if row.must_drain or self._draining:
            await self._drain("`scale` asks for it")

    def _record_pace(self) -> None:
        """Combine this worker's measured pace with the pipeline's recorded one, and record the result."""
        measure = self._pace.measure
        if measure is None:
            return
        recorded = self._workers.pipeline().seconds_per_unit
        places = self.runner.model.engine.concurrency
        pace = narrowed(recorded or measure.seconds_per_unit, measure.seconds_per_unit, measure.in_flight, places)
        self._workers.measured(seconds_per_unit=float(f"{pace:.3g}"))

    async def _drain(self, reason: str) -> None:
        """Take no more jobs, finish those in hand, and leave. `scale` no longer counts on this worker.

        Where the worker's row cannot be written, the next report tries it again.
        """
        if not self._draining:
            log.info("draining: %s", reason)
            self._draining = True
            self._wake.set()
        if not self._said_that_it_drains:
            await asyncio.to_thread(self._workers.draining, self._name)
            self._said_that_it_drains = True


def _seconds_before_load(row: WorkerRow, boot_seconds: float) -> dict[str, float]:
    """Return the seconds until a host with the image was there (`host`), and of the process's own start (`boot`)."""
    boot = {"boot": round(boot_seconds, 2)}
    if row.submitted_at is None or "started" not in row.stages:
        return boot
    since = datetime.fromisoformat(row.stages["started"]) - datetime.fromisoformat(row.submitted_at)
    return {"host": max(0.0, round(since.total_seconds() - boot_seconds, 2)), **boot}
