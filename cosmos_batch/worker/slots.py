"""Who is in a worker: as many jobs as it has in hand at most, in its engine or on their way, or one suspect alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Slots:
    """A lock with two ways in: together with others up to `size`, or alone. Who wants to be alone goes first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._taken = 0
        self._alone = False
        self._want_alone = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def place(self, alone: bool) -> AsyncIterator[None]:
        """Hold a place, or the whole worker."""
        await (self._enter_alone() if alone else self._enter())
        try:
            yield
        finally:
            await asyncio.shield(self._leave(alone))

    async def _enter(self) -> None:
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
