"""Loads a checkpoint in a server process on this machine, sends it requests, replaces a server that ended, stops it."""

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

import httpx2

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.engines.errors import CRASH_REMEDY, EngineDied
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.dialect import Phases, ServerDialect
from cosmos_batch.engines.serving.server import Server, ServerDied, ServerFault
from cosmos_batch.engines.serving.server_plan import ServerPlan
from cosmos_batch.engines.serving.watchdog import watch

START_SECONDS = 1800  # a cold start that compiles everything on slow disks
# The worker ends after this number of crashes without an answer in between. With the default worker.maxAttempts, 3, one
# job causes at most 4: its attempts, and before them one crash that is not counted because other jobs were running.
CRASHES_IN_A_ROW = 5
STARTUP_LINES = 200
# How often the plan is made smaller. Each time costs a whole start of the server, and a plan that is cut to a quarter
# each time is a sixteenth after the second.
_SMALLER_PLANS = 2
FULL_PLAN_AFTER = 64  # answers on a smaller plan, after which a restart uses the full one again
_FREEING_SECONDS, _FREEING_POLLS = 5, 12  # a driver takes up to a minute to free the memory of a process that ended
_ENDING_SECONDS = 5  # the server's process ends within this time after a connection broke
_HEALTH_SECONDS = 30  # a healthy server that decodes the media of a full batch answers late

log = logging.getLogger(__name__)


Plan = TypeVar("Plan", bound=ServerPlan)
Answer = TypeVar("Answer")


class ServedModel(Generic[Plan]):
    """A checkpoint and the server that has loaded it. All requests come from one event loop.

    Parameters
    ----------
    name
        The engine's name and version, for logs.
    plan
        How the server is started.
    dialect
        How its program reports memory, progress and refusals.
    """

    def __init__(self, name: str, plan: Plan, dialect: ServerDialect) -> None:
        self.plan = plan
        self.dialect = dialect
        self.caches: Path | None = None
        self.startup_logs: list[str] = []
        self.startup_seconds: Phases = {}
        self._name = name
        self._server: Server | None = None
        self._has_served = False
        self._full_plan = plan  # the plan with which the first start succeeded
        self._times_smaller = 0  # how often the plan was made smaller since then
        self._answers = 0  # how many requests were answered since the plan was made smaller
        self._requests = 0  # how many requests are under way
        self._crashes = 0  # how often a server crashed since the last answer
        self._last_counted: Server | None = None  # the server whose crash was counted last
        self._restarting: asyncio.Future[None] | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def start(self, checkpoint: Path) -> None:
        """Start a server for a checkpoint and block until it answers. Raises Failure where it does not."""
        self._checkpoint = checkpoint
        self._has_served = False
        self._times_smaller = 0
        self._closed.clear()
        self._start()
        self._full_plan, self._times_smaller = self.plan, 0

    async def request(self, send: Callable[[httpx2.AsyncClient], Awaitable[Answer]]) -> Answer:
        """Return the result of `send`, which sends one request over the connection that it is passed.

        Cancelling closes the connection, which aborts the request. Raises Failure, and EngineDied where the server
        ended meanwhile: any of the requests under way may have caused that.
        """
        server = await self._running_server()
        self._requests += 1
        try:
            async with server.address.async_client() as connection:
                answer = await send(connection)
        except (ServerFault, httpx2.TransportError) as error:
            # Counted before anything is awaited, because the other requests of a server that ended fail meanwhile.
            raise await self._explain(server, error, was_alone=self._requests == 1) from error
        finally:
            self._requests -= 1
        self._crashes = 0
        self._answers += 1
        return answer

    @property
    def lines_read(self) -> int:
        """Return how many lines the server has printed."""
        return 0 if self._server is None else self._server.lines_read

    def lines_since(self, count: int) -> list[str]:
        """Return the lines that the server printed after its first `count`, as far as they are kept."""
        new = self.lines_read - count
        return self._server.last_lines[-new:] if self._server is not None and new > 0 else []

    def close(self) -> None:
        """Stop the server, also one that is starting."""
        self._closed.set()
        if self._server is not None:
            self._server.stop()
        with self._starting:
            self._server = None
            self.plan = self._full_plan

    def _start(self) -> None:
        """Start a server and wait until it answers. If it does not, try again as long as `_may_start_again` finds a
        reason to; else raise Failure."""
        journal, began, done = Journal(), time.monotonic(), set[str]()
        with self._starting:
            while not self._closed.is_set():
                had_caches = self._has_caches
                server = self._server = self._launch(journal)
                if self._closed.is_set():  # `close` ran before `_server` was set, and did not stop this one
                    server.stop()
                try:
                    server.wait_until_ready(START_SECONDS, self.dialect.gives_up_with)
                except ServerDied as died:
                    if self._closed.is_set():
                        continue
                    log.error("the engine did not start: it %s", died, extra={"printed": server.shortened_lines})
                    if self._may_start_again(server, had_caches, done):
                        continue
                    raise self._start_failure(server, str(died)) from died
                self._on_started(server, journal, time.monotonic() - began)
                return
        raise Failure("Cancelled", "The engine was closed while it started.", "Ask again.", retryable=True)

    def _may_start_again(self, server: Server, had_caches: bool, done: set[str]) -> bool:
        """Return whether another server may start after this one did not, and do what it takes.

        A smaller plan where memory ran out. Nothing, once, where another process had a port. A wait, once, for memory
        that other processes hold. Else compiled code of earlier starts is removed. `done` has what was done once.
        """
        if self._printed(server, self.dialect.loaded_weights) and self._make_plan_smaller(server):
            return True
        if self._printed(server, self.dialect.found_address_in_use):
            log.warning("another process has an address of the engine's", extra={"errors": server.error_lines})
            return _is_first("address", done)
        if self._printed(server, self.dialect.found_memory_in_use):
            if is_first := _is_first("memory", done):
                self._wait_for_memory()
            return is_first
        return had_caches and self._empty_caches(server)

    def _launch(self, journal: Journal) -> Server:
        journal.note(f"starting {self._name}: {self.plan}")
        return Server(
            partial(self.plan.command, self._checkpoint),
            partial(self.plan.environment, self.caches),
            on_line=partial(self._note_line, journal),
            address=self.plan.address,
        )

    def _note_line(self, journal: Journal, line: str) -> None:
        """Keep the first lines of a start, and later ones that name a phase."""
        if len(journal.lines) < STARTUP_LINES or self.dialect.reports_phase(line):
            journal.note(line)

    def _on_started(self, server: Server, journal: Journal, seconds: float) -> None:
        """Watch a server that is ready, and write down how long its start took."""
        self._has_served = True
        progress = partial(self.dialect.progress, server)
        threading.Thread(target=watch, args=(server, self._has_requests, progress), name="watch", daemon=True).start()
        self.startup_seconds = self.dialect.start_phases(journal.lines, seconds)
        phases = ", ".join(f"{phase} {took:.1f} s" for phase, took in self.startup_seconds.items())
        self.startup_logs = [*journal.lines, f"{self._name} is ready: {phases}"]

    def _has_requests(self) -> bool:
        """Return whether requests are under way; the watchdog counts missing progress only then."""
        return self._requests > 0

    @property
    def _has_caches(self) -> bool:
        """Return whether there is compiled code of an earlier start."""
        return self.caches is not None and any(path.is_file() for path in self.caches.rglob("*"))

    def _printed(self, server: Server, matches: Callable[[str], bool]) -> bool:
        return any(matches(line) for line in server.last_lines)

    def _ran_out_of_memory(self, server: Server) -> bool:
        return self._printed(server, self.dialect.ran_out_of_memory)

    def _empty_caches(self, server: Server) -> bool:
        """Remove compiled code that a server did not start with; return False where memory was the reason."""
        if self.caches is None or self._ran_out_of_memory(server):
            return False
        log.warning("the engine did not start; now without kept caches", extra={"errors": server.error_lines})
        shutil.rmtree(self.caches)
        self.caches.mkdir()
        return True

    def _make_plan_smaller(self, server: Server) -> bool:
        """Make the next server's plan smaller if this one ran out of memory; return whether a smaller plan was left."""
        if not self._ran_out_of_memory(server) or self._times_smaller == _SMALLER_PLANS:
            return False
        if (smaller := self.plan.smaller()) is None:
            return False
        self._times_smaller += 1
        self._answers = 0
        self.plan = smaller
        return True

    def _wait_for_memory(self) -> None:
        """Wait until the memory that the plan takes is free; after a minute, shrink the plan to what is free then."""
        for _ in range(_FREEING_POLLS):
            self._closed.wait(_FREEING_SECONDS)
            fitted = self.plan.fitted_to_free_memory()
            if fitted == self.plan or self._closed.is_set():
                return
        self.plan = fitted

    async def _running_server(self) -> Server:
        """Return the server. One that ended is started again, once for all requests that wait for it."""
        if self._server is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        if self._restarting is None or self._restarting.done():
            if self._server.is_running:
                return self._server
            self._restarting = asyncio.ensure_future(self._restart(self._server))
        try:
            await asyncio.shield(self._restarting)
        except Failure as failure:
            raise EngineDied(failure.error, for_good=True) from failure
        return self._server

    async def _restart(self, ended: Server) -> None:
        """Start a server in the place of one that ended. Its crash is counted first, for the plan depends on it."""
        await asyncio.to_thread(ended.stop)  # its children may still run
        self._count_crash(ended)
        await asyncio.to_thread(self._start)

    async def _explain(self, server: Server, error: Exception, was_alone: bool) -> Exception:
        """Return the exception to raise for an error of one request.

        That is EngineDied where the server ended, and otherwise a Failure of this request alone. `was_alone` is whether
        no other request was under way when this one failed.
        """
        if await _is_healthy(server):
            log.error("the engine failed at a request", extra={"errors": server.error_lines})
            if isinstance(error, Failure):
                return error
            return Failure("EngineFailed", f"The engine dropped the request: {error}", "Try it again.", retryable=True)
        # A program's compute process may end first and fail its requests; the server's own process ends seconds later.
        if not await asyncio.to_thread(server.wait, _ENDING_SECONDS):
            await asyncio.to_thread(server.stop)
        was_alone = was_alone and self._last_counted is not server  # one that failed before this one has counted it
        self._count_crash(server)
        if was_alone and self._ran_out_of_memory(server) and self.plan.smaller() is None:
            message = "Memory ran out on this job: the engine ran out of GPU memory."
            return Failure("EngineFailed", message, self.plan.less_memory)  # the next server would have no more of it
        return EngineDied(self._crash_error(server), for_good=self._crashes >= CRASHES_IN_A_ROW)

    def _count_crash(self, server: Server) -> None:
        """Count a server's end once, and choose the plan of the next one."""
        if self._last_counted is server:
            return
        self._last_counted = server
        self._crashes += 1
        if self._times_smaller and self._answers >= FULL_PLAN_AFTER:
            self.plan, self._times_smaller = self._full_plan, 0
        self._make_plan_smaller(server)
        log.error("the engine %s; it starts again", server.describe_end(), extra={"errors": server.error_lines})

    def _start_failure(self, server: Server, end: str) -> Failure:
        """Return the failure for a server that does not start. Where one has served before, it is retryable: memory of
        the ended one may be freed late, and another worker may have none of that."""
        printed = " ".join((server.exceptions or server.error_lines)[-3:]) or "It printed no error."
        if self._printed(server, self.dialect.found_memory_in_use):
            remedy = "End them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES."
            return Failure("EngineFailed", f"Other programs hold the GPU's memory: {printed}", remedy, retryable=True)
        if self._ran_out_of_memory(server):
            message = f"{self._checkpoint.name} does not fit into the GPU's memory: {printed}"
            return Failure("ModelUnavailable", message, self.plan.less_memory, retryable=self._has_served)
        return Failure(
            "EngineFailed",
            f"{self.plan.program}, started for {self._checkpoint.name}, {end}. {printed}",
            "See the worker's log. If files of the model are broken, run once with INVALIDATE_COSMOS_MODELS.",
            retryable=True,
        )

    def _crash_error(self, server: Server) -> Error:
        if self._ran_out_of_memory(server):
            message, remedy = "The engine ran out of GPU memory.", self.plan.less_memory
        else:
            message = f"The engine {server.describe_end()} while it worked."
            remedy = CRASH_REMEDY
        return Error(code="EngineFailed", message=message, remedy=remedy, retryable=True)


def _is_first(thing: str, done: set[str]) -> bool:
    """Add a thing to what was done, and return whether it was not in it."""
    is_first = thing not in done
    done.add(thing)
    return is_first


async def _is_healthy(server: Server) -> bool:
    with suppress(httpx2.TransportError):
        async with server.address.async_client() as connection:
            return (await connection.get("/health", timeout=_HEALTH_SECONDS)).is_success
    return False
