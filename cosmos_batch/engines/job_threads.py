"""Threads that work for jobs: how they stop when a job is cancelled, and those that decode media or wait for it."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job

T = TypeVar("T")

LARGE_BYTES = 256 << 20
LESS_URGENT = 5
"""The niceness of what decodes media, unless it is higher anyway: where cores are few, the engine's own process, which
keeps the GPU busy, has them first."""

CancelCheck = Callable[[], None]
"""A thread calls this between pieces of work. It raises Failure (Cancelled) once the job is cancelled."""


class JobCancellation:
    """Stops the threads that work for one engine's jobs. Python cannot end a thread, so each of them calls a check.

    Parameters
    ----------
    output
        What a job produces, such as an answer, for the error message.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._running: set[threading.Event] = set()

    @contextmanager
    def scope(self) -> Iterator[CancelCheck]:
        """Yield the check for one job's threads. It raises once the block is left or `cancel_all` was called."""
        cancelled = threading.Event()
        self._running.add(cancelled)

        def check() -> None:
            if cancelled.is_set():
                raise Failure("Cancelled", f"The {self._output} was abandoned before it was finished.", "Ask again.")

        try:
            yield check
        finally:
            cancelled.set()
            self._running.discard(cancelled)

    def cancel_all(self) -> None:
        """Make the checks of all running jobs raise."""
        for cancelled in list(self._running):
            cancelled.set()


class MediaThreads:
    """Threads in which a job's media are decoded, or which wait for a process that decodes them: half of the cores, so
    that the engine's own process keeps the rest.

    Jobs with large files, which may take minutes each, have threads of their own, so that small files do not wait
    behind them.

    Parameters
    ----------
    least
        The smallest number of threads, whatever the number of cores: more than 1 if they mostly wait for the GPU.

    Attributes
    ----------
    count
        How many there are for jobs without large files.
    """

    def __init__(self, least: int = 1) -> None:
        self.count = max(least, len(os.sched_getaffinity(0)) // 2)
        self._small = ThreadPoolExecutor(self.count, "prepare", become_less_urgent)
        self._large = ThreadPoolExecutor(max(1, self.count // 2), "prepare-large", become_less_urgent)

    async def run(self, job: Job, work: Callable[..., T], *arguments: object) -> T:
        """Call `work` in a thread that suits the size of the job's files, and return its result."""
        pool = self._large if sum(source.size for source in job.inputs) > LARGE_BYTES else self._small
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    def close(self) -> None:
        """Wait until running work ends, and end the threads."""
        self._small.shutdown()
        self._large.shutdown()


def become_less_urgent() -> None:
    """Set the niceness of the calling thread, and of threads and processes that it starts from now on."""
    thread = threading.get_native_id()
    os.setpriority(os.PRIO_PROCESS, thread, max(os.getpriority(os.PRIO_PROCESS, thread), LESS_URGENT))
