"""Waiting for work that may be cut short."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

Value = TypeVar("Value")


async def to_its_end(call: Callable[..., object], *arguments: object) -> None:
    """Make a blocking call. Cancelled meanwhile, wait for it all the same: what it wrote must be known to be undone."""
    calling = asyncio.ensure_future(asyncio.to_thread(call, *arguments))
    try:
        await asyncio.shield(calling)
    except asyncio.CancelledError:
        await asyncio.wait({calling})
        raise


class TaskGoneError(Exception):
    """Nobody waits for the job that is being run."""


async def unless_gone(work: Awaitable[Value], gone: Awaitable[None]) -> Value:
    """The work's answer. Raises TaskGoneError, the work cancelled, if `gone` comes first."""
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(gone)
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise TaskGoneError
    finally:
        for one in (working, watching):
            one.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await working
