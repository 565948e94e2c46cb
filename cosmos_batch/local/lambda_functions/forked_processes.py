"""The server's side of `fork_server_script.py`: it starts processes of functions, and knows when they have ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from cosmos_batch.local import runtime

_SCRIPT = Path(__file__).with_name("fork_server_script.py")
KILLED = -signal.SIGKILL


def wait_readable(descriptor: int, seconds: float | None) -> bool:
    """Wait until a file descriptor can be read or its other end is closed; False if it takes longer than `seconds`.

    It uses poll(): select() refuses descriptors from 1,024 on, and a cloud with hundreds of executions has those.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else 1000 * seconds))


class ForkedProcess:
    """A process that the fork server started, with the methods of `subprocess.Popen` that its owner needs."""

    def __init__(self, handle: int, exit_code: int) -> None:
        self._handle, self._pipe = handle, exit_code
        self._exit_code: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self.wait(0)

    def wait(self, seconds: float | None = None) -> int | None:
        """Return the exit code as soon as the process has ended; None if it still runs after `seconds`."""
        with self._lock:
            if self._exit_code is None and wait_readable(self._pipe, seconds):
                reported = os.read(self._pipe, 16)
                if not reported:  # The fork server has ended, and nobody will report this process's exit.
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                self._exit_code = int(reported) if reported else KILLED
                os.close(self._pipe)
                os.close(self._handle)
            return self._exit_code

    def kill(self) -> None:
        """Kill the process if it still runs."""
        with self._lock:
            if self._exit_code is None:
                _kill(self._handle)


def _kill(handle: int) -> None:
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return  # It has ended by itself.


class ForkServer:
    """The process that forks those of all functions. It starts with the first of them, and anew where it has ended."""

    def __init__(self) -> None:
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()

    def start(self, request: dict[str, Any], requests: int, responses: int, log: int) -> ForkedProcess:
        """Start a process, which gets copies of the three descriptors."""
        pipe, exit_code = os.pipe()
        try:
            handle = self._start(json.dumps(request).encode(), [requests, responses, log, exit_code])
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(exit_code)
        return ForkedProcess(handle, pipe)

    def _start(self, request: bytes, descriptors: list[int]) -> int:
        with self._lock:
            handle = self._ask(request, descriptors) or self._ask(request, descriptors)
        if handle is None:
            raise RuntimeError(f"The fork server of the functions ended twice; {runtime.current().logs} says why")
        return handle

    def _ask(self, request: bytes, descriptors: list[int]) -> int | None:
        """Return a descriptor of the new process; None where the fork server has ended."""
        connection = self._connection = self._connection or _connect()
        try:
            socket.send_fds(connection, [request], descriptors)
            _, handles, _, _ = socket.recv_fds(connection, 16, 1)
        except (BrokenPipeError, ConnectionResetError):
            handles = []
        if handles:
            return handles[0]
        self.close()
        return None

    def close(self) -> None:
        """Let the fork server end."""
        if self._connection:
            self._connection.close()
            self._connection = None


def _connect() -> socket.socket:
    """Start the fork server; return the socket for requests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, (runtime.current().logs / "functions.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT), str(theirs.fileno()), *runtime.current().function_modules],
            env=runtime.container_environment("functions"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    return ours
