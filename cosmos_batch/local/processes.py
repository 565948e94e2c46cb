"""Find and kill processes by a variable of their environment, the mark.

Standard library only: the guardian runs this module as a script.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path


def marked(name: str, value_prefix: str) -> list[int]:
    """Return the ids of the processes whose environment has ``name`` with a value that starts with ``value_prefix``.

    The environment of other users' processes cannot be read, and no process of a cloud is theirs.
    """
    needle = f"{name}={value_prefix}".encode()
    matches = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(needle) for variable in variables):
            matches.append(int(entry.name))
    return matches


def kill_marked(name: str, value_prefix: str, timeout: float = 5.0) -> list[int]:
    """Send SIGKILL to every marked process until none is left; return those that survived ``timeout`` seconds.

    The sessions that they lead are killed too, because a process that sets its own title may overwrite its environment,
    which holds the mark. More than one pass is needed, because a process may fork between the listing and the signal.
    """
    deadline = time.monotonic() + timeout
    sessions: set[int] = set()
    while (left := _with_sessions(marked(name, value_prefix), sessions)) and time.monotonic() < deadline:
        for process_id in left:
            try:
                os.kill(process_id, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)
    return left


def _with_sessions(matches: list[int], sessions: set[int]) -> list[int]:
    """Add the living processes of the sessions that matches lead; ``sessions`` keeps those of earlier matches."""
    sessions |= {process_id for process_id in matches if _session(process_id) == process_id}
    every = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    known = {*matches, os.getpid()}
    return matches + [other for other in every if other not in known and _session(other) in sessions and alive(other)]


def _session(process_id: int) -> int | None:
    try:
        return os.getsid(process_id)
    except OSError:
        return None


def alive(process_id: int) -> bool:
    """Return whether the process exists and is no zombie."""
    try:
        status = Path(f"/proc/{process_id}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def guard(pipe: int, name: str, value_prefix: str) -> None:
    """Wait until the other end of ``pipe`` is closed, then kill every marked process.

    The server holds the other end, and the kernel closes it however the server ends.
    """
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while os.read(pipe, 1):
        continue
    kill_marked(name, value_prefix)


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2], sys.argv[3])
