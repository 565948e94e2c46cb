"""A container as a process: with a session of its own, a fresh working directory, and its output read by line."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cosmos_batch.local import processes, runtime


class Container:
    """A running container.

    Parameters
    ----------
    container_id
        Unique within the cloud; part of the mark of its processes.
    argv
        Program and arguments. The program is looked up on the container's own PATH.
    environment
        Variables beside those of ``runtime.container_environment``.
    workdir
        Working directory, below the container's scratch root.
    on_line
        Called with each line of output, without the line end.

    Raises
    ------
    OSError
        The program cannot be started.
    """

    def __init__(
        self,
        container_id: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        workdir: str,
        on_line: Callable[[str], None],
    ) -> None:
        root = runtime.current().scratch / "containers" / container_id
        directory = root / workdir.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        self._mark = f"{runtime.current().cloud_id}:{container_id}"
        variables = {**runtime.container_environment(container_id), "HOME": str(root), **environment}
        self._process = subprocess.Popen(
            [_program(argv[0], variables["PATH"]), *argv[1:]],
            env=variables,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
        self._reader.start()

    def _read(self, on_line: Callable[[str], None]) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            on_line(line.decode(errors="replace").rstrip("\r\n"))

    @property
    def process_id(self) -> int:
        """Return the id of the container's first process."""
        return self._process.pid

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the first process to end; return its exit code, or None after ``timeout`` seconds.

        After a signal the code is 128 plus its number, as in Docker. The other processes of the container are killed
        when the first one ends, as in a PID namespace.
        """
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        processes.kill_marked(runtime.MARK, self._mark)
        self._reader.join(5)
        return code if code >= 0 else 128 - code

    def stop(self, grace: float) -> None:
        """Send SIGTERM to the first process, and SIGKILL to all if it has not ended after ``grace`` seconds."""
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """Send SIGKILL to every process of the container."""
        self._signal(signal.SIGKILL)
        processes.kill_marked(runtime.MARK, self._mark)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, number)


def _program(name: str, path: str) -> str:
    """Return the full path of a program, or ``name`` itself where there is none, for the error to name it."""
    if "/" in name:
        return name
    candidates = (Path(directory) / name for directory in path.split(os.pathsep))
    return next((str(program) for program in candidates if os.access(program, os.X_OK)), name)
