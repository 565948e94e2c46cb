"""Answers with vLLM: its own server as a child, many requests at once.

Files are decoded by us in a few threads, once, and handed over as they are; see `vllm_plugin`. What the server prints
belongs to no request, so a request's log has our own lines alone.
"""

import asyncio
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import httpx2

from cosmos_batch.contract import Answer, Error, Failure, Job
from cosmos_batch.engines import EngineDied, input_paths
from cosmos_batch.engines.chat import ServerFault, ask
from cosmos_batch.engines.compiled import made_for
from cosmos_batch.engines.gpus import free_share, gpus_here
from cosmos_batch.engines.journal import Journal, plain_lines
from cosmos_batch.engines.question import Question, Reader, prepare
from cosmos_batch.engines.read_ahead import read_ahead
from cosmos_batch.engines.server import Server, ServerDied
from cosmos_batch.engines.startup import Phases, phases, tells
from cosmos_batch.engines.vllm_command import (
    MODEL,
    Plan,
    memory_share,
    serve_command,
    serve_environment,
    uneven,
    within,
)

SEQUENCES_ON_GPU, SEQUENCES_ON_CPU = 256, 8
START_SECONDS = 1800  # of a cold start that compiles everything on slow disks
DEATHS_IN_A_ROW = 3  # without an answer in between
_DYING_SECONDS = 5  # from a connection that broke to the end of its process
_OUT_OF_MEMORY = re.compile(r"out of memory|OutOfMemoryError|No available memory for the cache", re.IGNORECASE)
_FATAL_LINE = re.compile(r"\b(ERROR|CRITICAL|\w*Error:|\w*Exception:)")
_LINE_LIMIT, _KEPT_ERRORS = 300, 10
STARTUP_LINES = 200
MORE_MEMORY = "Choose an instance type with more GPU memory, or a smaller model; for a single file, lower fps."

log = logging.getLogger(__name__)


class VllmEngine:
    """`Engine`, and `Compiling`, for every checkpoint that vLLM serves."""

    def __init__(self) -> None:
        self.name = f"vllm {version('vllm')}"
        self.startup_logs: list[str] = []
        self.startup_seconds: Phases = {}
        self.caches: Path | None = None
        gpus = gpus_here()
        self._plan = Plan(context=0, sequences=SEQUENCES_ON_GPU if gpus else SEQUENCES_ON_CPU, gpus=gpus)
        self._server: Server | None = None
        self._dead: Server | None = None  # the last one whose end was counted
        self._restarting: asyncio.Future[None] | None = None
        self._deaths = 0
        self._abandoned: set[threading.Event] = set()

    @property
    def concurrency(self) -> int:
        """As many as the server works on at once, and some whose files are decoded meanwhile."""
        return self._plan.sequences + (os.cpu_count() or 1)

    def made_for(self) -> dict[str, str]:
        """What compiled code depends on beside the model."""
        return made_for(self._plan.gpus)

    def load(self, model_dir: Path, context: int | None = None) -> None:
        """Start the server and wait until it answers; blocks.

        Raises Failure: ModelUnavailable where the checkpoint is broken, EngineFailed where the server does not start.
        """
        if not (model_dir / "config.json").is_file():
            raise Failure(
                "ModelUnavailable",
                f"{model_dir.name} is no checkpoint: it has no config.json.",
                "Use a complete checkpoint; set INVALIDATE_COSMOS_MODELS to fetch it anew.",
            )
        if (reason := uneven(model_dir, self._plan.gpus)) is not None:
            raise Failure("EngineFailed", reason, "Use 1, 2, 4 or 8 GPUs; CUDA_VISIBLE_DEVICES names them.")
        self._folder = model_dir
        memory = memory_share(free_share() if self._plan.gpus else 1.0)
        self._plan = replace(self._plan, context=within(model_dir, context), memory=memory)
        self._reader = Reader.of_folder(model_dir, self._plan.context)
        reading = read_ahead(model_dir)
        try:
            self._start()
        finally:
            reading.shutdown(wait=False, cancel_futures=True)
        # The other half is the engine's: whatever waits for its core, waits for the GPU.
        self._preparing = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2), "prepare")

    async def run(self, job: Job, workdir: Path) -> Answer:
        """Answer one job. Cancelling the task stops its decoding, or aborts its request.

        Raises Failure, and EngineDied where the server ended meanwhile: nobody knows which of the requests did it.
        """
        await self._revive()
        with self._check() as check:
            question: Question = await asyncio.get_running_loop().run_in_executor(
                self._preparing, prepare, self._reader, job, input_paths(job, workdir), check
            )
        server, client = self._server, self._client
        assert server is not None, "revived"
        try:
            answer = await ask(client, MODEL, question)
        except (ServerFault, httpx2.TransportError) as error:
            raise await self._death(server, client, error) from error
        self._deaths = 0
        return answer

    def close(self) -> None:
        """Stop the server; `load` may be called again."""
        for abandoned in self._abandoned:
            abandoned.set()
        if self._server is not None:
            self._server.stop()
            self._server = None
            self._preparing.shutdown()

    def _start(self) -> None:
        """A server that answers: with half as many requests at once where memory ran out, without what others compiled
        where it cannot start with that."""
        journal, began = Journal(), time.monotonic()
        media_root = Path(tempfile.gettempdir())
        if self._server is not None:
            self._server.stop()  # what it left behind
        while True:
            plan, warm = self._plan, self._is_warm
            journal.note(f"starting {self.name}: {plan.sequences} requests at once, context of {plan.context:,} tokens")
            server = Server(
                partial(serve_command, self._folder, plan, media_root),
                partial(serve_environment, plan.gpus, self.caches),
                on_line=partial(_note_start, journal),
            )
            try:
                server.wait_until_ready(START_SECONDS)
            except ServerDied as died:
                if not self._ask_for_less(server) and not (warm and self._forget_caches(server)):
                    raise _not_started(self._folder, str(died), server) from died
                continue
            self._server, self._client = server, _client(server)
            self.startup_seconds = phases(journal.lines, time.monotonic() - began)
            took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.startup_seconds.items())
            self.startup_logs = [*journal.lines, f"{self.name} is ready: {took}"]
            return

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
        """Halve the plan where the server's last words are of memory; whether there was a half left."""
        if not ran_out_of_memory(server) or self._plan.sequences == 1:
            return False
        self._plan = replace(self._plan, sequences=self._plan.sequences // 2)
        return True

    async def _revive(self) -> None:
        """Start a server that ended again; all jobs wait for the same start."""
        if self._server is None:
            raise Failure("Internal", "The engine was asked before it had loaded a model.", "Load a model first.")
        if self._server.is_running and self._restarting is None:
            return
        if self._restarting is None:
            self._restarting = asyncio.ensure_future(asyncio.to_thread(self._start))
        try:
            await asyncio.shield(self._restarting)
        except Failure as failure:
            raise EngineDied(failure.error, for_good=True) from failure
        finally:
            if self._restarting is not None and self._restarting.done():
                self._restarting = None

    async def _death(self, server: Server, client: httpx2.AsyncClient, error: Exception) -> Exception:
        """What an error means: the server's end, which is everybody's, or a fault of this request alone."""
        if await _is_well(client):
            if isinstance(error, Failure):
                return error
            return Failure("EngineFailed", f"The engine dropped the request: {error}", "Try it again.", retryable=True)
        # Its core dies first, and the requests in it with an error; the server follows in seconds.
        if not await asyncio.to_thread(server.wait, _DYING_SECONDS):
            await asyncio.to_thread(server.stop)
        if server is self._server and self._dead is not server:
            self._dead = server
            self._deaths += 1
            self._ask_for_less(server)
            log.error("the engine %s; it starts again", server.obituary(), extra={"said": last_errors(server)})
        return EngineDied(_error_of(server), for_good=self._deaths >= DEATHS_IN_A_ROW)

    @contextmanager
    def _check(self) -> Iterator[Callable[[], None]]:
        """What a decoding thread calls, and what ends it when its job was cancelled or the engine closed."""
        abandoned = threading.Event()
        self._abandoned.add(abandoned)

        def check() -> None:
            if abandoned.is_set():
                raise Failure("Cancelled", "The answer was abandoned before it was finished.", "Ask again.")

        try:
            yield check
        finally:
            abandoned.set()
            self._abandoned.discard(abandoned)


def _note_start(journal: Journal, line: str) -> None:
    """What it says while it starts, and for a while after; `_start` takes what there is when it is ready."""
    if len(journal.lines) < STARTUP_LINES or tells(line):
        journal.note(line)


def _client(server: Server) -> httpx2.AsyncClient:
    """No time limit: the worker has its own for an attempt. No connection is used twice.

    The server closes one that was idle for some seconds, and a request sent in that moment would be lost.
    """
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    transport = httpx2.AsyncHTTPTransport(uds=str(server.socket), limits=limits)
    return httpx2.AsyncClient(transport=transport, base_url="http://engine", timeout=None)


async def _is_well(client: httpx2.AsyncClient) -> bool:
    with suppress(httpx2.TransportError):
        return (await client.get("/health")).is_success
    return False


def ran_out_of_memory(server: Server) -> bool:
    """By its last words."""
    return any(_OUT_OF_MEMORY.search(line) for line in server.last_lines)


def last_errors(server: Server) -> list[str]:
    """Its last words that are errors, short: what a dying server dumps besides may hold prompts."""
    return [line[:_LINE_LIMIT] for text in server.last_lines for line in plain_lines(text) if _FATAL_LINE.search(line)][
        -_KEPT_ERRORS:
    ]


def _error_of(server: Server) -> Error:
    if ran_out_of_memory(server):
        return Error(
            code="EngineFailed", message="The engine ran out of GPU memory.", remedy=MORE_MEMORY, retryable=True
        )
    return Error(
        code="EngineFailed",
        message=f"The engine {server.obituary()} while it worked.",
        remedy="The job is tried again, alone. See the worker's log.",
        retryable=True,
    )


def _not_started(folder: Path, how: str, server: Server) -> Failure:
    said = " ".join(last_errors(server)[-3:]) or "It said nothing of it."
    if ran_out_of_memory(server):
        return Failure("EngineFailed", f"{folder.name} does not fit into the GPU's memory: {said}", MORE_MEMORY)
    return Failure(
        "EngineFailed",
        f"vLLM, started for {folder.name}, {how}. {said}",
        "See the worker's log. If files of the model are broken, run once with INVALIDATE_COSMOS_MODELS.",
        retryable=True,
    )
