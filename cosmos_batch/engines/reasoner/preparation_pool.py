"""Processes in which requests are prepared, a job at a time in each: its files are decoded, and its request is built.

FFmpeg's functions give up Python's lock and wait for it again with each packet and frame, so threads of one process
decode fewer small clips than processes do, and keep the worker's other threads waiting (decision 057). And a file that
makes FFmpeg crash ends a process that takes no other job with it.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.preparation_program import (
    PreparationResult,
    PreparationTask,
    UnexpectedError,
    WrittenRequest,
)

# `-P` keeps the current folder out of the places where Python looks for modules, as it is with a script. The handler of
# faults prints where a process was when it crashed.
_PROGRAM = [sys.executable, "-P", "-X", "faulthandler", "-m", "cosmos_batch.engines.reasoner.preparation_program"]
_POLL_MILLISECONDS = 100  # how often a thread that waits for its process looks whether the job was cancelled
_ENDING_SECONDS = 5  # a process that has closed its output ends within this time
_CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE)


class PreparationError(Exception):
    """A process could not prepare a request, for a reason that no Failure describes."""


class PreparationPool:
    """Processes that take the next job when they are done with one. Any number of threads may call `prepare`.

    There are as many as threads have called at the same time, and none ends before `close`, which must follow the last
    `prepare`.

    Parameters
    ----------
    checkpoint
        The model's folder.
    context
        Tokens of prompt and answer together.
    count
        How many processes start at once. More follow where more threads call at the same time.
    """

    def __init__(self, checkpoint: Path, context: int, count: int) -> None:
        self._command = [*_PROGRAM, str(checkpoint), str(context)]
        self._lock = threading.Lock()
        self._idle: list[PreparationProcess] = []
        try:
            for _ in range(count):
                self._idle.append(PreparationProcess(self._command))
        except OSError:
            self.close()
            raise

    def prepare(self, job: Job, paths: list[Path], check: CancelCheck) -> ChatRequest:
        """Return the request for a job, as `prepare_request` does.

        `check` is called while this waits; an exception that it raises ends the process, and so the work.

        Raises
        ------
        Failure
            What `prepare_request` raised; InvalidInput where FFmpeg crashed at the files; EngineFailed where the
            process ended otherwise.
        OSError, PreparationError
            The process met an error that no Failure describes.
        """
        check()
        process = self._take()
        try:
            outcome = process.ask(job, paths, check)
        except BaseException:
            process.end()
            raise
        with self._lock:
            self._idle.append(process)
        if isinstance(outcome, WrittenRequest):
            return outcome.read()
        raise _exception(outcome)

    def _take(self) -> "PreparationProcess":
        """Return an idle process that has not ended meanwhile, or a new one."""
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_running:
                    return process
                process.end()
        return PreparationProcess(self._command)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()


class PreparationProcess:
    """One process, for one job at a time."""

    def __init__(self, command: list[str]) -> None:
        # In a process group of its own, so that Ctrl-C in a terminal lets it finish its job, as the worker does.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, process_group=0
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tasks, self._results = self._process.stdin, self._process.stdout
        os.set_blocking(self._tasks.fileno(), False)
        self._is_ready = False

    @property
    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, job: Job, paths: list[Path], check: CancelCheck) -> WrittenRequest | Error | UnexpectedError:
        """Send a job and wait for its result. Raises what `check` raises, and Failure where the process ends."""
        task = PreparationTask(job=job, paths=[str(path) for path in paths])
        try:
            if not self._is_ready:
                self._read_line(check)
                self._is_ready = True
            self._write(task.model_dump_json().encode() + b"\n", check)
            return PreparationResult.model_validate_json(self._read_line(check)).outcome
        except (BrokenPipeError, EOFError) as error:
            raise self._ended_at(job) from error

    def _write(self, data: bytes, check: CancelCheck) -> None:
        while data:
            _wait(self._tasks.fileno(), select.POLLOUT, check)
            data = data[os.write(self._tasks.fileno(), data) :]

    def _read_line(self, check: CancelCheck) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n"):
            _wait(self._results.fileno(), select.POLLIN, check)
            received = os.read(self._results.fileno(), select.PIPE_BUF)
            if not received:
                raise EOFError
            line += received
        return bytes(line)

    def _ended_at(self, job: Job) -> Failure:
        """Return the error of a job that the process had in hand when it ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_SECONDS)
        status = self._process.returncode
        if self._is_ready and status is not None and -status in _CRASHES:
            return Failure(
                "InvalidInput",
                f"FFmpeg crashed ({signal.Signals(-status).name}) while it decoded {job.subject}.",
                "The file is probably damaged. Convert it to H.264 in an MP4, check that it plays, and upload that.",
            )
        if status == -signal.SIGKILL:
            return Failure(
                "EngineFailed",
                f"The process that decoded {job.subject} was killed, probably because memory ran out.",
                "Send smaller files, or choose an instance type with more memory.",
                retryable=True,
            )
        how = "" if status is None else f" (status {status})"
        return Failure(
            "EngineFailed",
            f"The process that decodes {job.subject} stopped unexpectedly{how}.",
            "Ask again. If it happens again, the log of the worker's Batch job says more.",
            retryable=True,
        )

    def end(self) -> None:
        """Kill the process. It may have a job in hand, for whose result nobody waits any more."""
        self._process.kill()
        self._process.wait()
        self._results.close()
        self._tasks.close()


def _wait(pipe: int, event: int, check: CancelCheck) -> None:
    """Wait until a pipe can be read or written, or has been closed at its other end; call `check` meanwhile."""
    poll = select.poll()
    poll.register(pipe, event)
    while not poll.poll(_POLL_MILLISECONDS):
        check()


def _exception(outcome: Error | UnexpectedError) -> Exception:
    if isinstance(outcome, Error):
        return Failure.of(outcome)
    if outcome.errno is not None:
        return OSError(outcome.errno, os.strerror(outcome.errno))
    return PreparationError(f"{outcome.kind} at {outcome.place}")
