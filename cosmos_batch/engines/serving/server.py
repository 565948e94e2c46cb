"""A server that a worker starts, watches and stops: one process group, spoken to over a Unix socket.

A socket in a folder of our own cannot collide with the port of a worker that shares the host's network, and nobody else
can speak to it.
"""

import collections
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx2

from cosmos_batch.contract.error import Failure

_KEPT_LINES = 400
_POLL_SECONDS = 0.2
_STOP_SECONDS = 15  # after SIGTERM, before SIGKILL
DYING_SECONDS = 30  # after its last words, which are followed by tracebacks
# Ends the group when our end of the pipe closes, which it does however we end; the folder goes with it.
_GUARD = """
import os, shutil, signal, sys
sys.stdin.read()
shutil.rmtree(sys.argv[2], ignore_errors=True)
os.killpg(int(sys.argv[1]), signal.SIGKILL)
"""


def program_here(name: str) -> str:
    """The command beside our interpreter, or the one on the path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return shutil.which(name, path=path) or name


class ServerDied(Exception):  # noqa: N818 - it says what happened
    """The server ended by itself; the text is how, with its last words."""


class ServerFault(Failure):
    """The server failed at a request, which may be the end of it."""


class Server:
    """One server process and its children.

    Parameters
    ----------
    command
        Gives the argument list, from the path of the socket to listen on.
    environment
        Gives variables beside our own, from the same path; its folder is for the server's own sockets.
    on_line
        Called with each line that it prints.
    """

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        environment: Callable[[Path], Mapping[str, str]],
        on_line: Callable[[str], None],
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        self.socket = self._folder / "socket"
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self.lines_read = 0
        self._why_stopped: str | None = None
        try:
            self._process = subprocess.Popen(
                list(command(self.socket)),
                env={**os.environ, **environment(self.socket)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise Failure(
                "EngineFailed",
                f"The engine's program could not be started: {error}",
                "Install it beside this program's Python, as the image or `make vllm` does.",
                retryable=True,
            ) from error
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self._process.pid), str(self._folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # where the group is gone, there is nothing to say
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(on_line,), name="server-log", daemon=True)
        self._reader.start()

    def wait_until_ready(self, limit_seconds: float, last_words: str | None = None) -> None:
        """Return when `/health` says so.

        Raises ServerDied where it ends first, takes longer, or lives on after its `last_words`; it is stopped then.
        """
        deadline = time.monotonic() + limit_seconds
        with httpx2.Client(transport=httpx2.HTTPTransport(uds=str(self.socket)), base_url="http://engine") as client:
            while time.monotonic() < deadline and self.is_running:
                with contextlib.suppress(httpx2.TransportError):
                    if client.get("/health").is_success:
                        return
                time.sleep(_POLL_SECONDS)
                if last_words is not None and any(last_words in line for line in self.last_lines):
                    self.wait(DYING_SECONDS)
                    break
        how = self.obituary() if not self.is_running else f"was not ready within {limit_seconds:g} s"
        if self.is_running and time.monotonic() < deadline:
            how = "gave up and did not end"
        self.stop()
        raise ServerDied(how)

    @property
    def is_running(self) -> bool:
        """Whether its first process lives."""
        return self._process.poll() is None

    @property
    def last_lines(self) -> list[str]:
        """What it printed last."""
        return list(self._lines)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            self._reader.join(1)
        return not self.is_running

    def obituary(self) -> str:
        """How it ended."""
        if self._why_stopped is not None:
            return self._why_stopped
        status = self._process.returncode
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def stop(self, why: str | None = None) -> None:
        """End the whole group: children that outlive their parent too. `why` is what its obituary says then."""
        self._why_stopped = self._why_stopped or why
        self._signal(signal.SIGTERM)
        if not self.wait(_STOP_SECONDS):
            self._signal(signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self.wait(_STOP_SECONDS)
        self._guard.kill()
        self._guard.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            self.lines_read += 1
            on_line(line)
