"""Reads the counters of an engine's vLLM server while clips are answered."""

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx2

STEADY_CLIPS, STEADY = 1000, (0.25, 0.7)
"""A pass over so many clips has a steady part, and which part of its time that is: clips are both read and answered in
it, if 256 are in the server at once."""

_EVERY = 1.0  # seconds
_INTERRUPTIONS, _TOKENS = "vllm:num_preemptions_total", "vllm:generation_tokens_total"


def connection_to(engine: Any) -> httpx2.AsyncClient:
    """Return a connection to the server that an engine has started. The engine itself offers none."""
    client: httpx2.AsyncClient = engine._served._server.address.async_client()
    return client


@dataclass(frozen=True)
class ServerCounters:
    """How often a server has interrupted an answer since its start, and the tokens of all answers, at a moment."""

    moment: float
    interruptions: int
    tokens: int


class ServerProgress:
    """A context in which the counters of an engine's server are read, each second and at both ends."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._read: list[ServerCounters] = []
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._connection = connection_to(self._engine)
        await self._sample()
        self._sampling = asyncio.create_task(self._sample_repeatedly())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Read the counters once more, unless the context ended with an error. Raises that of a reading that failed."""
        assert self._sampling is not None
        self._sampling.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._sampling
            if kind is None:
                await self._sample()
        finally:
            await self._connection.aclose()

    @property
    def interruptions(self) -> int:
        """Return how often vLLM interrupted an answer to make room for others, while the context lasted."""
        return self._read[-1].interruptions - self._read[0].interruptions

    def steady_tokens_per_second(self) -> float | None:
        """Return the tokens of answers that were made per second in the steady part of a pass.

        A pass begins with clips that are all read and not yet answered, and ends with clips that are answered while
        none is read. None if the counters were not read twice between the two.
        """
        first, last = self._read[0].moment, self._read[-1].moment
        begin, end = (first + share * (last - first) for share in STEADY)
        inner = [one for one in self._read if begin <= one.moment <= end]
        if len(inner) < 2:
            return None
        return (inner[-1].tokens - inner[0].tokens) / (inner[-1].moment - inner[0].moment)

    async def _sample_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self._sample()

    async def _sample(self) -> None:
        self._read.append(await counters_at(self._connection))


async def counters_at(connection: httpx2.AsyncClient) -> ServerCounters:
    """Return the counters of a server."""
    metrics = (await connection.get("/metrics")).raise_for_status().text
    return ServerCounters(time.monotonic(), counter(metrics, _INTERRUPTIONS), counter(metrics, _TOKENS))


def counter(metrics: str, name: str) -> int:
    """Return a counter of vLLM's page of metrics, which has one line for it: the name, labels and the value."""
    [line] = [line for line in metrics.splitlines() if line.startswith(f"{name}{{")]
    return int(float(line.rpartition(" ")[2]))
