"""Processes are found and ended by their mark, also those that lose it."""

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from cosmos_batch.local import processes

MARK = "COSMOS_BATCH_TEST_MARK"
# Starts a child without the mark, says its id, and waits.
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
    """A marked process, and the id of its unmarked child."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        env={**os.environ, MARK: mark},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=own_session,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_with_a_marked_process_its_session_ends(mark: str) -> None:
    """vLLM's core writes its title over its environment, and would hold its memory for ever."""
    parent, child = start(mark, own_session=True)
    assert processes.marked(MARK, mark) == [parent.pid]
    assert processes.kill_marked(MARK, mark) == []
    parent.wait(10)
    assert not processes.alive(child)


def test_a_session_that_somebody_else_leads_goes_on(mark: str) -> None:
    """As that of a person's shell, from which a marked process was started."""
    parent, child = start(mark, own_session=False)
    try:
        assert processes.kill_marked(MARK, mark) == []
        parent.wait(10)
        assert processes.alive(child) and processes.alive(os.getpid())
    finally:
        os.kill(child, 9)
