"""Processes beside the main one: synthesis and the demo's checkpoints each import a library that takes seconds."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool

PROCESSES = 2


@contextmanager
def process_pool() -> Iterator[Pool]:
    """Start a pool of processes. They are terminated at the end of the block, whatever they are doing."""
    with multiprocessing.get_context("spawn").Pool(PROCESSES, _ignore_interrupts) as pool:
        yield pool


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which the terminal sends to every process of the group, to the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
