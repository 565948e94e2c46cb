"""Starting a torchrun group for a checkpoint, sending it work, and understanding its errors. See `driver`."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.hub_cache import offline_variables
from cosmos_batch.engines.serving.dialect import ServerDialect
from cosmos_batch.engines.serving.openai_errors import error_message
from cosmos_batch.engines.serving.server import Server, socket_in
from cosmos_batch.engines.serving.server_plan import ServerPlan
from cosmos_batch.engines.strict_guardrails import UNJUDGED
from cosmos_batch.engines.torch_errors import expandable_segments, mentions_out_of_memory

_REFUSED, _BLOCKED = 400, 403
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class GroupPlan(ServerPlan):
    """The settings with which one torchrun group is started.

    Attributes
    ----------
    program
        The engine's name in messages.
    driver
        Module that each process runs.
    processes
        Processes of the group, one for each GPU.
    less_memory
        The remedy in an error about GPU memory.
    options
        Options of the driver, beside checkpoint, socket and a folder for scratch files.
    expandable_segments
        Whether torch grows its memory segments; see `torch_errors.expandable_segments`.
    online
        Whether the engine's libraries may download from the Hub.
    hub_models
        Local copies of models that these libraries load by name where they may not.
    """

    program: str
    driver: str
    processes: int
    less_memory: str
    expandable_segments: bool = False
    options: tuple[str, ...] = field(default=())
    online: bool = False
    hub_models: Mapping[str, Path] = field(default_factory=dict)

    def __str__(self) -> str:
        return " ".join([f"{self.processes} processes", *self.options])

    def command(self, checkpoint: Path, folder: Path) -> list[str]:
        """Return the argument list of torchrun for one process on each GPU, in a group of this machine alone."""
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        torchrun += ["--nproc-per-node", str(self.processes), "-m", self.driver]
        paths = {"--checkpoint": checkpoint, "--socket": socket_in(folder), "--scratch": folder / "scratch"}
        return [*torchrun, *(str(part) for pair in paths.items() for part in pair), *self.options]

    def environment(self, _caches: Path | None, folder: Path) -> dict[str, str]:
        """Return environment variables beside our own."""
        variables = {"DO_NOT_TRACK": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        if self.expandable_segments:
            variables |= expandable_segments()
        return variables if self.online else {**variables, **offline_variables(folder / "hub", self.hub_models)}


class GroupDialect(ServerDialect):
    """The dialect of a group whose driver counts its steps."""

    def progress(self, server: Server, client: httpx2.Client) -> str | None:  # noqa: ARG002 - of the protocol
        """Return the driver's count of steps, or None if it does not answer."""
        with contextlib.suppress(httpx2.TransportError):
            return client.get("/health").text
        return None


async def send_work(
    connection: httpx2.AsyncClient,
    body: dict[str, Any],
    engine: str,
    less_memory: str,
    on_steps: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Send the group one piece of work and return its answer.

    Raises Failure: Blocked where a guardrail refused it, or EngineFailed where the group refused it or failed at it.

    Parameters
    ----------
    body
        The request; its `folder` is where the group writes files.
    engine
        The engine's name in messages.
    less_memory
        The remedy where a GPU's memory runs out.
    on_steps
        Called about once a second with the number of steps that are done.
    """
    polling = asyncio.ensure_future(_poll_steps(connection, body["folder"], on_steps))
    try:
        response = await connection.post("/work", json=body)
    finally:
        polling.cancel()
    if response.is_success:
        await _report_steps(connection, body["folder"], on_steps)
        answer: dict[str, Any] = response.json()
        return answer
    if response.status_code == _BLOCKED:
        raise blocked(response.json()["error"]["blocked"])
    if UNJUDGED in (message := error_message(response)):
        raise unjudged(message[message.index(UNJUDGED) :])
    if mentions_out_of_memory(
        message
    ):  # not retryable: the group runs one job at a time, which would need as much again
        raise Failure("EngineFailed", f"Memory ran out on this job: {message}", less_memory)
    refused = response.status_code == _REFUSED
    raise Failure(
        "EngineFailed",
        f"{engine} {'refused the request' if refused else 'failed at this job'}: {message}",
        "Try it again; if it fails again, use another engine, and report it with the worker's log.",
        retryable=not refused,
    )


async def _poll_steps(connection: httpx2.AsyncClient, folder: str, on_steps: Callable[[int], None]) -> None:
    """Report steps until cancelled."""
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        await _report_steps(connection, folder, on_steps)


async def _report_steps(connection: httpx2.AsyncClient, folder: str, on_steps: Callable[[int], None]) -> None:
    """Pass on the steps of the work in this folder. A request that fails is left to the next poll."""
    with contextlib.suppress(httpx2.TransportError):
        status = (await connection.get("/health")).json()
        if status["folder"] == folder:  # the group may still work on a job that was cancelled
            on_steps(status["done"])
