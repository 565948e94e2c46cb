"""The threads in which media are decoded, off the engine's own."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from cosmos_batch.contract import Job

T = TypeVar("T")

LARGE_BYTES = 256 << 20


class Preparing:
    """Half of the cores: what waits for a core of the engine's half, waits for the GPU.

    Large files, which may take minutes each, have threads of their own, so that no small one waits behind them.
    """

    def __init__(self) -> None:
        threads = max(1, len(os.sched_getaffinity(0)) // 2)
        self._small = ThreadPoolExecutor(threads, "prepare")
        self._large = ThreadPoolExecutor(max(1, threads // 2), "prepare-large")

    async def run(self, job: Job, work: Callable[..., T], *arguments: object) -> T:
        """What `work` makes of a job."""
        lane = self._large if sum(source.size for source in job.inputs) > LARGE_BYTES else self._small
        return await asyncio.get_running_loop().run_in_executor(lane, work, *arguments)

    def close(self) -> None:
        """Wait for what is under way."""
        self._small.shutdown()
        self._large.shutdown()
