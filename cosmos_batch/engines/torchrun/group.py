"""How a torchrun group of ours is started for a checkpoint, and what its answers mean. See `driver`."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import blocked, unjudged
from cosmos_batch.engines.hub_cache import offline_variables
from cosmos_batch.engines.serving.refusals import said_by
from cosmos_batch.engines.serving.server import Server
from cosmos_batch.engines.strict_guardrails import UNJUDGED
from cosmos_batch.engines.torch_errors import expandable_segments, mentions_out_of_memory

_REFUSED, _BLOCKED = 400, 403
_POLL_SECONDS = 1.0


@dataclass(frozen=True)
class GroupPlan:
    """A `ServerPlan`.

    Attributes
    ----------
    program
        The engine's name, for a person.
    driver
        Module that each process runs.
    processes
        One for each GPU.
    options
        Of the driver, beside checkpoint, socket and a folder for scratch.
    less_memory
        What would help where memory runs out.
    expandable_segments
        Whether torch grows what it holds of a GPU's memory piece by piece.
    counts_steps
        Whether its driver counts steps: one that counts none is not missed while it hangs.
    online
        Whether it asks the Hub for what no checkpoint holds.
    hub_models
        Copies of models that it finds by name where it does not.
    """

    program: str
    driver: str
    processes: int
    less_memory: str
    expandable_segments: bool = False
    options: tuple[str, ...] = field(default=())
    counts_steps: bool = True
    online: bool = False
    hub_models: Mapping[str, Path] = field(default_factory=dict)

    last_words = None

    def __str__(self) -> str:
        return " ".join([f"{self.processes} processes", *self.options])

    def command(self, folder: Path, socket: Path) -> list[str]:
        """One process for each GPU, in a group that only this machine sees."""
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        torchrun += ["--nproc-per-node", str(self.processes), "-m", self.driver]
        places = ["--checkpoint", str(folder), "--socket", str(socket), "--scratch", str(socket.parent / "scratch")]
        return [*torchrun, *places, *self.options]

    def environment(self, _caches: Path | None, socket: Path) -> dict[str, str]:
        """Variables beside our own."""
        variables = {"DO_NOT_TRACK": "1", "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        if self.expandable_segments:
            variables |= expandable_segments()
        return (
            variables if self.online else {**variables, **offline_variables(socket.with_name("hub"), self.hub_models)}
        )

    def lessened(self) -> None:
        """There is none: jobs run one at a time, and how large one may be is the plan's."""

    def measured(self) -> Self:
        """It takes memory as it needs it."""
        return self

    def sign_of_life(self, _server: Server, client: httpx2.Client) -> str | None:
        """The steps that it counts."""
        with contextlib.suppress(httpx2.TransportError):
            steps = client.get("/health").text
            return steps if self.counts_steps else f"{steps} {time.monotonic()}"
        return None


async def work(
    connection: httpx2.AsyncClient,
    body: dict[str, Any],
    engine: str,
    less_memory: str,
    told: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """What the group has of one piece of work. `engine` is its name for a person, `less_memory` what would help where a
    GPU's memory runs out; `told` hears how many steps are made.

    Raises Failure: Blocked, or EngineFailed where it refuses the request or failed at it.
    """
    watching = asyncio.ensure_future(_watch(connection, body["folder"], told))
    try:
        response = await connection.post("/work", json=body)
    finally:
        watching.cancel()
    if response.is_success:
        await _tell(connection, body["folder"], told)
        answer: dict[str, Any] = response.json()
        return answer
    if response.status_code == _BLOCKED:
        raise blocked(response.json()["error"]["blocked"])
    if UNJUDGED in (said := said_by(response)):
        raise unjudged(said[said.index(UNJUDGED) :])
    if mentions_out_of_memory(said):  # which would happen again: one job at a time is in the group
        raise Failure("EngineFailed", f"Memory ran out on this job: {said}", less_memory)
    refused = response.status_code == _REFUSED
    raise Failure(
        "EngineFailed",
        f"{engine} {'refused the request' if refused else 'failed at this job'}: {said}",
        "Try it again; if it fails again, use another engine, and report it with the worker's log.",
        retryable=not refused,
    )


async def _watch(connection: httpx2.AsyncClient, folder: str, told: Callable[[int], None]) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        await _tell(connection, folder, told)


async def _tell(connection: httpx2.AsyncClient, folder: str, told: Callable[[int], None]) -> None:
    """What is not heard now is heard the next time."""
    with contextlib.suppress(httpx2.TransportError):
        said = (await connection.get("/health")).json()
        if said["folder"] == folder:  # not of what somebody else asked for and left
            told(said["done"])
