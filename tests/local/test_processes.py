"""Processes are found and killed by their mark, also a process that overwrote its mark."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from cosmos_batch.local import processes

MARK = "COSMOS_BATCH_TEST_MARK"
# Starts a child without the mark, prints its id, and waits.
PARENT = (
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], env={});"
    "print(child.pid, flush=True); time.sleep(600)"
)


@pytest.fixture
def mark() -> Iterator[str]:
    mark = uuid.uuid4().hex
    yield mark
    assert processes.kill_marked(MARK, mark) == []


def start(mark: str, own_session: bool) -> tuple["subprocess.Popen[str]", int]:
    """Start a marked process; return it and the id of its unmarked child."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=own_session,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_the_session_of_a_marked_process_ends_with_it(mark: str) -> None:
    """A process that sets its own title overwrites its environment, and with it the mark."""
    parent, child = start(mark, own_session=True)
    assert processes.marked(MARK, mark) == [parent.pid]
    assert processes.kill_marked(MARK, mark) == []
    parent.wait(10)
    assert not processes.alive(child)


def test_the_session_of_an_unmarked_leader_continues(mark: str) -> None:
    """A person's shell leads such a session, and a marked process may be started from it."""
    parent, child = start(mark, own_session=False)
    try:
        assert processes.kill_marked(MARK, mark) == []
        parent.wait(10)
        assert processes.alive(child) and processes.alive(os.getpid())
    finally:
        os.kill(child, 9)
