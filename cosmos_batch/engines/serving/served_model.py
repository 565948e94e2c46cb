"""A checkpoint that a server serves: it is started, watched, started again where it ended, and stopped."""

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

import httpx2

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.engines.errors import CRASH_REMEDY, EngineDied
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.serving.last_words import found_memory_held, last_errors, ran_out_of_memory, reasons
from cosmos_batch.engines.serving.server import Server, ServerDied, ServerFault
from cosmos_batch.engines.serving.startup import Phases, has_weights, phases, tells
from cosmos_batch.engines.serving.watchdog import watch

START_SECONDS = 1800  # of a cold start that compiles everything on slow disks
# Without an answer in between. More than one job can cause with the default worker.maxAttempts, 3: its attempts, and
# before them one death that is not counted, for it may have been another's. With more attempts such a job ends workers
# too, and the next goes on counting: the job waits, suspected, and is one failure to the breaker, whatever it kills.
DEATHS_IN_A_ROW = 5
STARTUP_LINES = 200
_TIMES_LESS = 2  # each is a whole start; after that, what is asked for is a sixteenth
FORGIVEN_AFTER = 64  # answers with less: what took too much memory is over
_FREEING_SECONDS, _FREEING_LOOKS = 5, 12  # a driver takes a while to free what a dead process held
_DYING_SECONDS = 5  # from a connection that broke to the end of its process
_HEALTH_SECONDS = 30  # a sound server that decodes a full batch's requests answers late

log = logging.getLogger(__name__)


class ServerPlan(Protocol):
    """How a program is started as a server, and with how much. As text, what it may do, for a person."""

    @property
    def program(self) -> str:
        """Its name, for a person."""

    @property
    def less_memory(self) -> str:
        """What would help where memory runs out."""

    @property
    def last_words(self) -> str | None:
        """What it says when it cannot start, if it may live on then."""

    def command(self, folder: Path, socket: Path) -> list[str]:
        """The argument list, for a checkpoint."""

    def environment(self, caches: Path | None, socket: Path) -> dict[str, str]:
        """Variables beside our own."""

    def lessened(self) -> Self | None:
        """One whose work takes much less memory, if there is one."""

    def measured(self) -> Self:
        """One for the memory that is free now."""

    def sign_of_life(self, server: Server, client: httpx2.Client) -> str | None:
        """What changes as long as it works, and is no change of its own; None where it does not answer."""


Plan = TypeVar("Plan", bound=ServerPlan)
Answer = TypeVar("Answer")


class ServedModel(Generic[Plan]):
    """One checkpoint and the server that answers for it. What is asked of it is asked in one event loop."""

    def __init__(self, name: str, plan: Plan) -> None:
        self.plan = plan
        self.caches: Path | None = None
        self.startup_logs: list[str] = []
        self.startup_seconds: Phases = {}
        self._name = name
        self._server: Server | None = None
        self._has_served = False
        self._lessened = 0  # how often its plan was
        self._whole = plan  # with which it started first
        self._answers = 0  # since its plan was lessened
        self._asked = 0
        self._deaths = 0
        self._buried: Server | None = None  # the last one whose end was counted
        self._restarting: asyncio.Future[None] | None = None
        self._starting = threading.Lock()
        self._closed = threading.Event()

    def start(self, folder: Path) -> None:
        """Start a server for a checkpoint and wait until it answers; blocks. Raises Failure where it does not."""
        self._folder = folder
        self._has_served = False
        self._lessened = 0
        self._closed.clear()
        self._start()
        self._whole, self._lessened = self.plan, 0

    async def ask(self, question: Callable[[httpx2.AsyncClient], Awaitable[Answer]]) -> Answer:
        """The answer to one question, which is put over a connection of its own. Cancelling closes that.

        Raises Failure, and EngineDied where the server ended meanwhile: nobody knows which of the requests did it.
        """
        server = await self._alive()
        self._asked += 1
        try:
            async with client(server) as connection:
                answer = await question(connection)
        except (ServerFault, httpx2.TransportError) as error:
            raise await self._death(server, error) from error
        finally:
            self._asked -= 1
        self._deaths = 0
        self._answers += 1
        return answer

    @property
    def lines_read(self) -> int:
        """How many lines the server has printed."""
        return 0 if self._server is None else self._server.lines_read

    def lines_since(self, count: int) -> list[str]:
        """What it has printed since there were so many lines, as far as they are kept."""
        new = self.lines_read - count
        return self._server.last_lines[-new:] if self._server is not None and new > 0 else []

    def close(self) -> None:
        """Stop the server, also one that is being started."""
        self._closed.set()
        if self._server is not None:
            self._server.stop()
        with self._starting:
            self._server = None
            self.plan = self._whole

    def _start(self) -> None:
        """A server that answers: with a smaller plan where memory ran out, without what others compiled where it cannot
        start with that."""
        journal, began, waited = Journal(), time.monotonic(), False
        with self._starting:
            while not self._closed.is_set():
                warm = self._is_warm
                server = self._server = self._launch(journal)
                if self._closed.is_set():  # and `close` did not see this one
                    server.stop()
                try:
                    server.wait_until_ready(START_SECONDS, self.plan.last_words)
                except ServerDied as died:
                    less = has_weights(server.last_lines) and self._ask_for_less(server)
                    if less or self._closed.is_set() or (warm and self._forget_caches(server)):
                        continue
                    if found_memory_held(server) and not waited:
                        waited = True
                        self._wait_for_memory()
                        continue
                    raise self._not_started(server, str(died)) from died
                self._has_served = True
                sign = partial(self.plan.sign_of_life, server)
                threading.Thread(target=watch, args=(server, self._is_asked, sign), name="watch", daemon=True).start()
                self.startup_seconds = phases(journal.lines, time.monotonic() - began)
                took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.startup_seconds.items())
                self.startup_logs = [*journal.lines, f"{self._name} is ready: {took}"]
                return
        raise Failure("Cancelled", "The engine was closed while it started.", "Ask again.", retryable=True)

    def _launch(self, journal: Journal) -> Server:
        journal.note(f"starting {self._name}: {self.plan}")
        return Server(
            partial(self.plan.command, self._folder),
            partial(self.plan.environment, self.caches),
            on_line=partial(_note_start, journal),
        )

    def _is_asked(self) -> bool:
        return self._asked > 0

    @property
    def _is_warm(self) -> bool:
        """Whether something compiled is there before the server starts."""
        return self.caches is not None and any(path.is_file() for path in self.caches.rglob("*"))

    def _forget_caches(self, server: Server) -> bool:
        """Empty the folder that a server did not start with; False where it is not to blame."""
        if self.caches is None or ran_out_of_memory(server):
            return False
        log.warning("the engine did not start; now without kept caches", extra={"said": last_errors(server)})
        shutil.rmtree(self.caches)
        self.caches.mkdir()
        return True

    def _ask_for_less(self, server: Server) -> bool:
        """Lessen the plan where the server's last words are of memory; whether that was tried and may help."""
        if not ran_out_of_memory(server) or self._lessened == _TIMES_LESS or (less := self.plan.lessened()) is None:
            return False
        self._lessened += 1
        self._answers = 0
        self.plan = less
        return True

    def _wait_for_memory(self) -> None:
        """Until what the plan takes is free again, or plan by what is free after a minute."""
        for _ in range(_FREEING_LOOKS):
            self._closed.wait(_FREEING_SECONDS)
            free = self.plan.measured()
            if free == self.plan or self._closed.is_set():
                return
        self.plan = free

    async def _alive(self) -> Server:
        """The server; one that ended is started again, once for all who wait."""
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

    async def _restart(self, dead: Server) -> None:
        """Its end is counted first, whoever noticed it: the next one is started by what it died of."""
        await asyncio.to_thread(dead.stop)  # what it left behind
        self._bury(dead)
        await asyncio.to_thread(self._start)

    async def _death(self, server: Server, error: Exception) -> Exception:
        """What an error means: the server's end, which is everybody's, or a fault of this request alone."""
        if await _is_well(server):
            log.error("the engine failed at a request", extra={"said": last_errors(server)})
            if isinstance(error, Failure):
                return error
            return Failure("EngineFailed", f"The engine dropped the request: {error}", "Try it again.", retryable=True)
        # Its core dies first, and the requests in it with an error; the server follows in seconds.
        if not await asyncio.to_thread(server.wait, _DYING_SECONDS):
            await asyncio.to_thread(server.stop)
        was_alone = self._asked == 1
        self._bury(server)
        if was_alone and self._would_run_out_again(server):
            message = "Memory ran out on this job: the engine ran out of GPU memory."
            return Failure("EngineFailed", message, self.plan.less_memory)
        return EngineDied(self._error_of(server), for_good=self._deaths >= DEATHS_IN_A_ROW)

    def _would_run_out_again(self, server: Server) -> bool:
        """Whether a server died for want of memory, and the next one will have no more of it for the same request."""
        return ran_out_of_memory(server) and self.plan.lessened() is None

    def _bury(self, server: Server) -> None:
        """Count the end of a server, once, and plan the next by it."""
        if self._buried is server:
            return
        self._buried = server
        self._deaths += 1
        if self._lessened and self._answers >= FORGIVEN_AFTER:
            self.plan, self._lessened = self._whole, 0
        self._ask_for_less(server)
        log.error("the engine %s; it starts again", server.obituary(), extra={"said": last_errors(server)})

    def _not_started(self, server: Server, how: str) -> Failure:
        """Where it has served before, another worker may do better: a GPU's memory is held by the dead for a while."""
        said = " ".join((reasons(server) or last_errors(server))[-3:]) or "It said nothing of it."
        if found_memory_held(server):
            remedy = "End them (nvidia-smi lists them), or choose another GPU with CUDA_VISIBLE_DEVICES."
            return Failure("EngineFailed", f"Other programs hold the GPU's memory: {said}", remedy, retryable=True)
        if ran_out_of_memory(server):
            message = f"{self._folder.name} does not fit into the GPU's memory: {said}"
            return Failure("ModelUnavailable", message, self.plan.less_memory, retryable=self._has_served)
        return Failure(
            "EngineFailed",
            f"{self.plan.program}, started for {self._folder.name}, {how}. {said}",
            "See the worker's log. If files of the model are broken, run once with INVALIDATE_COSMOS_MODELS.",
            retryable=True,
        )

    def _error_of(self, server: Server) -> Error:
        if ran_out_of_memory(server):
            message, remedy = "The engine ran out of GPU memory.", self.plan.less_memory
        else:
            message = f"The engine {server.obituary()} while it worked."
            remedy = CRASH_REMEDY
        return Error(code="EngineFailed", message=message, remedy=remedy, retryable=True)


def client(server: Server) -> httpx2.AsyncClient:
    """A connection for one request: what closes it aborts that, and no server ends one that lay idle. It has no time
    limit: the worker has its own for an attempt, and `watch` looks whether the server goes on."""
    transport = httpx2.AsyncHTTPTransport(uds=str(server.socket), verify=False)
    return httpx2.AsyncClient(transport=transport, base_url="http://engine", timeout=None)


async def _is_well(server: Server) -> bool:
    with suppress(httpx2.TransportError):
        async with client(server) as connection:
            return (await connection.get("/health", timeout=_HEALTH_SECONDS)).is_success
    return False


def _note_start(journal: Journal, line: str) -> None:
    """What it says while it starts, and for a while after; `_start` takes what there is when it is ready."""
    if len(journal.lines) < STARTUP_LINES or tells(line):
        journal.note(line)
