"""Start processes beside the main one: synthesis and the demo's checkpoints import libraries that take seconds."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.pool import Pool

PROCESSES = 2


@contextmanager
def process_pool() -> Iterator[Pool]:
    """Start a pool of processes. They are terminated at the end of the block, whatever they are doing.

    Ctrl-C, which a terminal sends to every process of the group, is blocked in them from their first moment, because
    they inherit the mask of this thread. One that comes meanwhile takes effect as soon as the pool is sure to be ended.

    Each has a process group of its own: a SIGTERM to this one's, as `timeout` sends it, would kill a process that holds
    the pool's lock, and ending the pool would wait for that lock for ever.
    """
    resource_tracker.ensure_running()  # its start would unblock the signal again
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with multiprocessing.get_context("spawn").Pool(PROCESSES, initializer=os.setpgrp) as pool:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            yield pool
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
