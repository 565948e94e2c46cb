"""Processes in which requests are prepared, a job at a time in each: its files are decoded, and its request is built.

FFmpeg's functions give up Python's lock and wait for it again with each packet and frame, so threads of one process
decode fewer small clips than processes do, and keep the worker's other threads waiting (decision 057). And a file that
makes FFmpeg crash ends a process that has no other job in hand.
"""

import contextlib
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_threads import CancelCheck
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.chat_request import ChatRequest
from cosmos_batch.engines.reasoner.preparation_program import PreparationResult, PreparationTask, WrittenRequest

# `-P` keeps the current folder out of the places where Python looks for modules, as it is with a script.
_PROGRAM = [sys.executable, "-P", "-m", "cosmos_batch.engines.reasoner.preparation_program"]
_POLL_MILLISECONDS = 100  # how often a thread that waits for its process looks whether the job was cancelled


class PreparationProcesses:
    """Processes that take the next job when they are done with one. Any number of threads may call `prepare`.

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
        self._idle = [PreparationProcess(self._command) for _ in range(count)]

    def prepare(self, job: Job, paths: list[Path], check: CancelCheck) -> ChatRequest:
        """Return the request for a job, as `prepare_request` does.

        `check` is called while this waits; an exception that it raises ends the process, and so the work.

        Raises Failure: what `prepare_request` raised, InvalidInput where the process crashed at the files, and
        EngineFailed where it ended otherwise.
        """
        process = self._take()
        try:
            outcome = process.ask(job, paths, check)
        except BaseException:
            process.end()
            raise
        with self._lock:
            self._idle.append(process)
        if isinstance(outcome, Error):
            raise Failure.of(outcome)
        return _with_journal(outcome)

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
        """End all idle processes."""
        with self._lock:
            while self._idle:
                self._idle.pop().end()


class PreparationProcess:
    """One process, for one job at a time."""

    def __init__(self, command: list[str]) -> None:
        # In a process group of its own, so that Ctrl-C in a terminal lets it finish its job, as the worker does.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._tasks, self._results = self._process.stdin, self._process.stdout
        self._is_ready = False

    @property
    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, job: Job, paths: list[Path], check: CancelCheck) -> WrittenRequest | Error:
        """Send a job and wait for its result. Raises what `check` raises, and Failure where the process ends."""
        if not self._is_ready:
            self._next_line(job, check)
            self._is_ready = True
        task = PreparationTask(job=job, paths=[str(path) for path in paths])
        try:
            self._tasks.write(task.model_dump_json().encode() + b"\n")
            self._tasks.flush()
        except BrokenPipeError as error:
            raise self._ended_at(job) from error
        return PreparationResult.model_validate_json(self._next_line(job, check)).outcome

    def _next_line(self, job: Job, check: CancelCheck) -> bytes:
        poll = select.poll()
        poll.register(self._results, select.POLLIN)
        while not poll.poll(_POLL_MILLISECONDS):
            check()
        line = self._results.readline()
        if not line.endswith(b"\n"):
            raise self._ended_at(job)
        return line

    def _ended_at(self, job: Job) -> Failure:
        """Return the error of a job that the process had in hand when it ended."""
        status = self._process.wait()
        if status >= 0:
            return Failure(
                "EngineFailed",
                f"The process that decodes {job.subject} ended with status {status}.",
                "The worker's log has the reason. If the file plays elsewhere, convert it to H.264 in an MP4.",
            )
        name = signal.Signals(-status).name
        if -status in (signal.SIGKILL, signal.SIGTERM):
            return Failure(
                "EngineFailed",
                f"The process that decodes {job.subject} was ended by {name}.",
                "SIGKILL mostly means that memory ran out: take an instance type with more, or send smaller files.",
                retryable=True,
            )
        return Failure(
            "InvalidInput",
            f"The decoder crashed ({name}) at {job.subject}.",
            "The file is probably damaged. Convert it to H.264 in an MP4, check that it plays, and upload that.",
        )

    def end(self) -> None:
        """Kill the process, also in the middle of a job, which nobody waits for any more."""
        self._process.kill()
        self._process.wait()
        self._results.close()
        with contextlib.suppress(BrokenPipeError):  # a part of a task that it has not read
            self._tasks.close()


def _with_journal(prepared: WrittenRequest) -> ChatRequest:
    journal = Journal()
    journal.lines += prepared.lines
    return ChatRequest(
        body=prepared.body,
        journal=journal,
        notes=prepared.notes,
        tokens=prepared.tokens,
        timings=prepared.timings,
        frame_times=prepared.frame_times,
    )
