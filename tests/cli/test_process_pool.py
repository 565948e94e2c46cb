"""Ctrl-C reaches the main process alone: its pool's processes are ended by it."""

import os
import signal

from cosmos_batch.cli.process_pool import process_pool


def test_interrupts_are_blocked_in_the_pools_processes_alone() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with process_pool() as pool:
        assert signal.SIGINT in pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, []))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_signal_to_the_group_of_the_command_ends_no_process_of_the_pool() -> None:
    """`timeout` sends SIGTERM to the whole group. A process that ends while it holds the pool's lock keeps it."""
    with process_pool() as pool:
        assert pool.apply(os.getpgrp) != os.getpgrp()
