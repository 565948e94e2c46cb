"""Work that is done beside the main process: synthesis and checkpoints each load a library that takes seconds."""

import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.pool import Pool

PROCESSES = 2


@contextmanager
def process_pool() -> Iterator[Pool]:
    """A pool of fresh processes. At the end of the block they are gone, whatever they were doing."""
    with multiprocessing.get_context("spawn").Pool(PROCESSES, _leave_interrupts_to_the_parent) as pool:
        yield pool


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
