"""Whose turn it is: one job after the other, each of which may pass its turn on before it has ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turn:
    """One job's turn."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._is_mine = True

    def pass_on(self) -> None:
        """Let the next job begin; at most once has it an effect."""
        if self._is_mine:
            self._is_mine = False
            self._lock.release()


class Turns:
    """The turns of all jobs, in the order in which they ask for them."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[Turn]:
        """Wait for a turn. It is passed on with the end of the context, if it was not before."""
        await self._lock.acquire()
        turn = Turn(self._lock)
        try:
            yield turn
        finally:
            turn.pass_on()
