"""The loop of a worker: receive as much as there is room for, leave when there is nothing, stop when told to."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable
from datetime import UTC, datetime

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.pace import narrowed, weight_of
from cosmos_batch.worker.pace import Pace
from cosmos_batch.worker.queue import NewerSchema, Unreadable, read
from cosmos_batch.worker.runner import End, Phase, Run, Runner
from cosmos_batch.worker.start import tell_start

POLL_SECONDS = 5  # a receive that is under way when SIGTERM comes is awaited: of Batch's 30 s it takes these at most
LAST_LOOK_SECONDS = 20  # SQS's longest poll, which asks every one of its servers
STOP_SECONDS = 20  # after SIGTERM, for jobs that will be done by then

log = logging.getLogger(__name__)


class WorkerLoop:
    """Serves one queue with one resident model."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.boot_seconds = 0.0  # from the start of its process to its first word to AWS
        self._workers = runner.workers
        self._name = runner.environment.aws_batch_job_id
        self._settings = runner.environment.worker
        self._runs: dict[asyncio.Task[End], Run] = {}
        self._pace = Pace()
        self._answered = 0
        self._draining = False
        self._kept = False
        self._fatal: BaseException | None = None
        self._stopping = asyncio.Event()
        self._wake = asyncio.Event()
        self._busy_at = time.monotonic()

    async def serve(self) -> None:
        """Work until there is none, or until told to stop. Raises what makes going on pointless."""
        await self._ready()
        seen = asyncio.create_task(self._keep_saying_so())
        try:
            await self._receive_until_done()
            await self._settle_runs()
        finally:
            seen.cancel()
            await self._say_so()
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """SIGTERM or a Spot notice: take nothing more, give back what will not be done in time."""
        log.info("stopping: %d jobs in hand", len(self._runs))
        self._stopping.set()
        self._wake.set()

    async def unless_stopped(self, work: Awaitable[None]) -> bool:
        """Wait for something that is no job. False, and it is left to itself, if we are told to stop first."""
        working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if working.done():
            working.result()
        return working.done()

    async def _ready(self) -> None:
        await self.runner.tell_model()
        row = await asyncio.to_thread(self._workers.ready, self._name)
        if row.must_drain:
            await self._drain("asked to while its model was loaded")
        tell_start(row, self.boot_seconds, self.runner.model, self.runner.environment.pipeline)
        if row.submitted_at is not None:
            cold_start = (datetime.now(UTC) - datetime.fromisoformat(row.submitted_at)).total_seconds()
            await asyncio.to_thread(self._workers.measured, cold_start_seconds=round(cold_start, 1))

    async def _receive_until_done(self) -> None:
        while not self._stopping.is_set() and self._fatal is None:
            if self._draining:
                return
            if self._room <= 0:
                await self._something_changes(POLL_SECONDS)
            elif self._idle_for(self._settings.idle_seconds):
                if await self._leave():
                    return
            elif self.runner.outage.is_on:
                await self._look_for_server()
            else:
                await self._take(POLL_SECONDS)

    @property
    def _room(self) -> int:
        """How many jobs may come: as many as the engine has places for, those not counted that are through with it, and
        one more while a job in hand has been fetched, or its prompt been written, for longer than a receive takes.

        No more than that: what waits here is hidden from other workers. An engine of one place has one job in hand,
        whose death is its own.
        """
        places = self.runner.model.engine.concurrency
        if places == 1:
            return 1 - len(self._runs)
        unfinished = [run for run in self._runs.values() if run.phase is not Phase.CONCLUDING]
        ahead = any(run.is_slow_to_prepare(POLL_SECONDS) for run in unfinished)
        return min(places + ahead - len(unfinished), 2 * places - len(self._runs))

    def _idle_for(self, seconds: float) -> bool:
        return not self._kept and not self._runs and time.monotonic() - self._busy_at >= seconds

    async def _something_changes(self, seconds: float | None = None) -> None:
        """Wait for it, at most so long."""
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), seconds)

    async def _look_for_server(self) -> None:
        """Take no job that could not be served. Where that lasts, we have no work, and leave: the GPU costs money."""
        outage = self.runner.outage
        if seconds := outage.seconds_until_look:
            await self._something_changes(min(seconds, POLL_SECONDS))
        else:
            await outage.look()

    async def _leave(self) -> bool:
        """Say that we leave, then look a last time: what was sent before we said so must not wait for nobody."""
        row = await asyncio.to_thread(self._workers.draining, self._name)
        if row.must_drain:
            return True  # others take what comes
        self._kept = row.keep
        look = min(LAST_LOOK_SECONDS, max(1, self._settings.idle_seconds))
        if not self._kept and (self.runner.outage.is_on or await self._take(look) == 0):
            log.info("no work that can be done for %d s: leaving", self._settings.idle_seconds)
            return True
        await asyncio.to_thread(self._workers.ready, self._name)
        return False

    async def _take(self, wait_seconds: int) -> int:
        """Receive once, and start what came. Where we were told to stop meanwhile, it goes back at once."""
        wait = min(wait_seconds, POLL_SECONDS) if self._runs else wait_seconds
        messages = await asyncio.to_thread(self.runner.queue.receive, self._room, wait)
        for message in messages:
            await self._begin(message)
        return len(messages)

    async def _begin(self, message: dict[str, str]) -> None:
        handle = message["ReceiptHandle"]
        try:
            delivery = read(message)
        except NewerSchema as newer:
            await self._drain(f"a job has {newer}")
            await asyncio.to_thread(self.runner.queue.give_back, handle, self._settings.seen_seconds)
            return
        except Unreadable as unreadable:
            log.error("a message in the queue is not a job", extra={"messageId": message["MessageId"]})
            await asyncio.to_thread(self._refuse, handle, unreadable)
            return
        if self._stopping.is_set() or self._draining or self._fatal is not None:
            await asyncio.to_thread(self.runner.queue.give_back, handle)  # it came by a receive that was under way
            return
        self._start(Run(delivery))

    def _refuse(self, handle: str, unreadable: Unreadable) -> None:
        if unreadable.task_token is not None:
            with contextlib.suppress(Exception):  # nobody may wait for it
                self.runner.tasks.fail(unreadable.task_token, unreadable.error)
        self.runner.queue.delete(handle)

    def _start(self, run: Run) -> None:
        self._pace.began(run.attempt_id)
        task = asyncio.create_task(self.runner.handle(run))
        self._runs[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[End]") -> None:
        run = self._runs.pop(task)
        answered = not task.cancelled() and task.exception() is None and task.result() is End.ANSWERED
        self._pace.ended(run.attempt_id, weight_of(run.job) if answered else None)
        self._busy_at = time.monotonic()
        self._wake.set()
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            # A Failure that comes up to here is the model's: no job can be served any more.
            self._fatal = error if isinstance(error, Failure) else self._fatal
        elif task.result() is End.OUTDATED:
            self._say_so_now = asyncio.create_task(self._say_so())  # which hears that it must leave
        elif answered:
            self._count()

    def _count(self) -> None:
        self._answered += 1
        if self._answered == 1:
            # At once: a worker that has answered is no failure, whatever becomes of it in the next moment.
            self._say_so_now = asyncio.create_task(self._say_so())

    async def _settle_runs(self) -> None:
        """Finish what is in hand; when told to stop, now or meanwhile, what fits, and the rest goes back."""
        if self._fatal is None:
            await self.unless_stopped(self._wait_for_runs(None))
        if self._runs:
            await asyncio.sleep(0)  # a task that is cancelled before its first step cannot give its job back
            self._give_back_what_does_not_fit()
            await self._wait_for_runs(STOP_SECONDS)
            for task, run in self._runs.items():
                if run.phase is not Phase.CONCLUDING:
                    task.cancel()
        await self._wait_for_runs(None)

    async def _wait_for_runs(self, seconds: float | None) -> None:
        if self._runs:
            await asyncio.wait(list(self._runs), timeout=seconds)

    def _give_back_what_does_not_fit(self) -> None:
        for task, run in list(self._runs.items()):
            unready = run.phase in (Phase.WAITING, Phase.PREPARING)
            if unready or (run.phase is Phase.INFERRING and not self._fits(run)):
                task.cancel()

    def _fits(self, run: Run) -> bool:
        """Whether a job in the engine will probably be done before we are killed; without experience, it will not."""
        measure = self._pace.measure
        if measure is None or run.inferring_since is None:
            return False
        expected = measure.seconds_per_unit * weight_of(run.job) * max(1, len(self._runs))
        return expected - (time.monotonic() - run.inferring_since) < STOP_SECONDS

    async def _keep_saying_so(self) -> None:
        while True:
            await asyncio.sleep(self._settings.seen_seconds)
            with contextlib.suppress(Exception):  # said again in a moment
                await self._say_so()

    async def _say_so(self) -> None:
        row = await asyncio.to_thread(self._workers.seen, self._name, self._answered)
        await asyncio.to_thread(self._tell_pace)
        self._kept = row.keep
        if row.must_drain:
            await self._drain("asked to")

    def _tell_pace(self) -> None:
        """Narrow down what is known of the pace of a fully loaded worker. Every worker of the pipeline does so."""
        measure = self._pace.measure
        if measure is None:
            return
        known = self._workers.pipeline().seconds_per_unit
        places = self.runner.model.engine.concurrency
        pace = narrowed(known or measure.seconds_per_unit, measure.seconds_per_unit, measure.in_flight, places)
        self._workers.measured(seconds_per_unit=float(f"{pace:.3g}"))

    async def _drain(self, why: str) -> None:
        """Take nothing more, finish what is in hand, leave; `scale` no longer counts on this worker."""
        if self._draining:
            return
        log.info("draining: %s", why)
        self._draining = True
        self._wake.set()
        await asyncio.to_thread(self._workers.draining, self._name)
