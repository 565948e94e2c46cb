"""A server process that a worker starts, watches and stops, with all its children."""

import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.journal import plain_lines

_KEPT_LINES = 400
_POLL_SECONDS = 0.2
_STOP_SECONDS = 15  # the time between SIGTERM and SIGKILL
GIVING_UP_SECONDS = 30  # a program that prints that it gives up ends within this time
# A process of its own that kills the server's process group as soon as our end of a pipe closes, which the kernel does
# however this process ends. It removes the server's folder too.
_GUARD = """
import os, shutil, signal, sys
sys.stdin.read()
shutil.rmtree(sys.argv[2], ignore_errors=True)
os.killpg(int(sys.argv[1]), signal.SIGKILL)
"""
_ERROR_LINE = re.compile(r"\b(ERROR|CRITICAL|\w*Error:|\w*Exception:)")
_EXCEPTION = re.compile(r"\b\w*(Error|Exception): \S.*")
_LINE_LIMIT, _ERROR_LINES = 300, 10


@dataclass(frozen=True)
class Address:
    """The address at which a server on this machine listens: a Unix socket, or a URL."""

    url: str
    socket: Path | None = None

    def client(self, timeout: float) -> httpx2.Client:
        """Return a client whose requests take at most `timeout` seconds each."""
        uds = None if self.socket is None else str(self.socket)
        return httpx2.Client(transport=httpx2.HTTPTransport(uds=uds, verify=False), base_url=self.url, timeout=timeout)

    def async_client(self) -> httpx2.AsyncClient:
        """Return a client for one request: closing it aborts the request, and no idle connection can break.

        It has no time limit: the worker limits an attempt, and the watchdog stops a server that hangs.
        """
        uds = None if self.socket is None else str(self.socket)
        transport = httpx2.AsyncHTTPTransport(uds=uds, verify=False)
        return httpx2.AsyncClient(transport=transport, base_url=self.url, timeout=None)


def socket_in(folder: Path) -> Path:
    """Return the path of the Unix socket in a server's own folder.

    Unlike a port of the host's network it cannot collide with that of another worker, and no other user can connect.
    """
    return folder / "socket"


def unix_address(folder: Path) -> Address:
    """Return the address of a server that listens on the Unix socket in its own folder."""
    return Address("http://engine", socket_in(folder))


def program_here(name: str) -> str:
    """Return the path of a command beside our interpreter, or else on PATH."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return shutil.which(name, path=path) or name


class ServerDied(Exception):  # noqa: N818 - it says what happened
    """A server ended or was stopped before it was ready; the message says how."""


class ServerFault(Failure):
    """A server failed at a request, which may be the first sign that its process ends."""


class Server:
    """A server process and its children.

    Parameters
    ----------
    command
        Returns the argument list, given the server's own folder, which is removed with the server.
    environment
        Returns environment variables beside our own, given the same folder.
    on_line
        Called with each line that the server prints.
    address
        Returns where the server will listen, given the same folder.
    """

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        environment: Callable[[Path], Mapping[str, str]],
        on_line: Callable[[str], None],
        address: Callable[[Path], Address] = unix_address,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="engine-", dir="/tmp"))
        self.address = address(self.folder)
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self.lines_read = 0
        self._stop_reason: str | None = None
        try:
            self._process = subprocess.Popen(
                list(command(self.folder)),
                env={**os.environ, **environment(self.folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise Failure(
                "EngineFailed",
                f"The engine's program could not be started: {error}",
                "Install it beside this program's Python, or run the worker in the engine's container image.",
                retryable=True,
            ) from error
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, str(self._process.pid), str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a traceback if the group has ended already
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(on_line,), name="server-log", daemon=True)
        self._reader.start()

    def wait_until_ready(self, limit_seconds: float, gives_up_with: str | None = None) -> None:
        """Block until `/health` answers with success.

        Raises ServerDied where the server ends first, takes longer than the limit, or prints a line that contains
        `gives_up_with`. It is stopped then.
        """
        deadline = time.monotonic() + limit_seconds
        with self.address.client(timeout=5.0) as client:
            while time.monotonic() < deadline and self.is_running:
                with contextlib.suppress(httpx2.TransportError):
                    if client.get("/health").is_success:
                        return
                time.sleep(_POLL_SECONDS)
                if gives_up_with is not None and any(gives_up_with in line for line in self.last_lines):
                    self.wait(GIVING_UP_SECONDS)
                    break
        end = self.describe_end() if not self.is_running else f"was not ready within {limit_seconds:g} s"
        if self.is_running and time.monotonic() < deadline:
            end = "gave up and did not end"
        self.stop()
        raise ServerDied(end)

    @property
    def is_running(self) -> bool:
        """Return whether the server's first process runs."""
        return self._process.poll() is None

    @property
    def last_lines(self) -> list[str]:
        """Return the last lines that the server printed."""
        return list(self._lines)

    @property
    def shortened_lines(self) -> list[str]:
        """Return the last lines that the server printed, shortened. Once it has had requests, they may quote these."""
        return [line[:_LINE_LIMIT] for line in self.last_lines]

    @property
    def error_lines(self) -> list[str]:
        """Return the last lines that look like errors, shortened.

        Others may quote prompts: some programs dump their state when they crash.
        """
        lines = (line for text in self.last_lines for line in plain_lines(text))
        return [line[:_LINE_LIMIT] for line in lines if _unquoted(_ERROR_LINE, line)][-_ERROR_LINES:]

    @property
    def exceptions(self) -> list[str]:
        """Return the exceptions that the last lines name, each once, without what stands before them."""
        matches = (_unquoted(_EXCEPTION, line) for text in self.last_lines for line in plain_lines(text))
        return list(dict.fromkeys(match[0][:_LINE_LIMIT] for match in matches if match))

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the server's end; return whether it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
            self._reader.join(1)
        return not self.is_running

    def describe_end(self) -> str:
        """Return how the server ended, as the end of a sentence: why it was stopped, or its signal or exit status."""
        if self._stop_reason is not None:
            return self._stop_reason
        status = self._process.returncode
        return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"

    def stop(self, reason: str | None = None) -> None:
        """End the whole process group, with children that outlive their parent. `describe_end` returns the reason."""
        self._stop_reason = self._stop_reason or reason
        self._signal(signal.SIGTERM)
        if not self.wait(_STOP_SECONDS):
            self._signal(signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self.wait(_STOP_SECONDS)
        self._guard.kill()
        self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _read(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))
            self.lines_read += 1
            on_line(line)


def _unquoted(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Return the first match outside of backticks, in which a warning quotes errors that may come."""
    return next((one for one in pattern.finditer(line) if line.count("`", 0, one.start()) % 2 == 0), None)
