"""Warm processes of Lambda functions: a few for each function, each of which serves one invocation at a time."""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
import time
import uuid
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.local import runtime
from cosmos_batch.local.lambda_functions.forked_processes import ForkServer, wait_readable

MAX_PROCESSES = 4
EXIT_SECONDS = 60.0
_RUNTIME_SCRIPT = Path(__file__).with_name("runtime_script.py")
fork_server = ForkServer()


@dataclass(frozen=True)
class DeployedFunction:
    """A version of a function. Invocations with equal versions share warm processes.

    ``code_sha256`` is compared in place of ``code``; ``timeout`` is in seconds.
    """

    name: str
    handler: str
    code_sha256: str
    environment: tuple[tuple[str, str], ...]
    code: bytes = field(compare=False, repr=False)
    timeout: float = field(compare=False)


@dataclass(frozen=True)
class InvocationResult:
    """The result of an invocation: the JSON text, whether it is an error, and the log lines."""

    payload: str
    failed: bool
    logs: tuple[str, ...]


class FunctionProcess:
    """A process that has imported the code of a function."""

    def __init__(self, function: DeployedFunction, code_dir: Path) -> None:
        self.function = function
        self.log_stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{uuid.uuid4().hex}"
        self._log = runtime.current().logs / "lambda" / function.name / f"{self.log_stream[-32:]}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._log_offset = 0
        child_requests, self._requests = os.pipe()
        self._responses, child_responses = os.pipe()
        self._buffer = b""
        request = {
            "script": str(_RUNTIME_SCRIPT),
            "code_dir": str(code_dir),
            "handler": function.handler,
            "environment": {
                **runtime.container_environment(f"lambda-{function.name}"),
                **runtime.IN_REGION,
                "AWS_LAMBDA_LOG_STREAM_NAME": self.log_stream,
                **dict(function.environment),
            },
        }
        with self._log.open("ab") as output:
            self._process = fork_server.start(request, child_requests, child_responses, output.fileno())
        os.close(child_requests)
        os.close(child_responses)

    def invoke(self, event: object, request_id: str) -> InvocationResult:
        """Run one invocation. If the function timed out or exited, the process has ended afterwards."""
        timeout, started = self.function.timeout, time.time()
        line = json.dumps({"requestId": request_id, "event": event, "deadline": started + timeout})
        answer = self._exchange(line.encode() + b"\n", timeout)
        spent = 1000 * (time.time() - started)
        report = (f"END RequestId: {request_id}", f"REPORT RequestId: {request_id}\tDuration: {spent:.2f} ms")
        if answer is None:
            answer = self._end_failed(request_id, timed_out=spent >= 1000 * timeout)
        lines = (f"START RequestId: {request_id}", *self._new_log_lines(), *report)
        return InvocationResult(answer["payload"], answer["failed"], lines)

    def _exchange(self, request: bytes, timeout: float) -> Any:
        deadline = time.monotonic() + timeout
        try:
            # In a thread, because a large event fills the pipe while the process still imports its code.
            writer = threading.Thread(target=_write_all, args=(self._requests, request), daemon=True)
            writer.start()
            while b"\n" not in self._buffer:
                readable = wait_readable(self._responses, max(0, deadline - time.monotonic()))
                chunk = os.read(self._responses, 1 << 16) if readable else b""
                if not chunk:
                    return None
                self._buffer += chunk
        except OSError:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _end_failed(self, request_id: str, timed_out: bool) -> dict[str, Any]:
        """End the process; return the error that AWS reports for a timeout or for an exit."""
        # What closed its pipes is about to exit, which takes a while on a busy machine.
        code = None if timed_out else self._process.wait(EXIT_SECONDS)
        self.close()
        if code is None:
            kind, reason = "Sandbox.Timedout", f"Task timed out after {self.function.timeout:.2f} seconds"
        else:
            kind, reason = "Runtime.ExitError", f"Runtime exited with error: exit status {code}"
        message = f"RequestId: {request_id} Error: {reason}"
        return {"payload": json.dumps({"errorType": kind, "errorMessage": message}), "failed": True}

    def _new_log_lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(self._log_offset)
            text = log.read()
        self._log_offset += len(text)
        return text.decode(errors="replace").splitlines()

    @property
    def alive(self) -> bool:
        """Return whether the process can serve another invocation."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for descriptor in (self._requests, self._responses):
            try:
                os.close(descriptor)
            except OSError:
                continue


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        return  # The process has ended, which the reader of its answers sees.


class FunctionPool:
    """The warm processes of one function."""

    def __init__(self) -> None:
        self._idle: list[FunctionProcess] = []
        self._lock = threading.Lock()
        self._slots = threading.Semaphore(MAX_PROCESSES)

    def invoke(self, function: DeployedFunction, event: object) -> tuple[InvocationResult, str]:
        """Run one invocation on a warm process, or on a new one; return the result and the name of its log stream.

        Waits while ``MAX_PROCESSES`` invocations of the function are running.
        """
        with self._slots:
            process = self._take(function)
            outcome = process.invoke(event, str(uuid.uuid4()))
            self._give_back(process)
        return outcome, process.log_stream

    def _take(self, function: DeployedFunction) -> FunctionProcess:
        with self._lock:
            stale = [process for process in self._idle if process.function != function or not process.alive]
            self._idle = [process for process in self._idle if process not in stale]
            warm = self._idle.pop() if self._idle else None
        for process in stale:
            process.close()
        return warm or FunctionProcess(function, unpack(function))

    def _give_back(self, process: FunctionProcess) -> None:
        if process.alive:
            with self._lock:
                self._idle.append(process)

    def close(self) -> None:
        """End every idle process."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.close()


_unpacking = threading.Lock()


def unpack(function: DeployedFunction) -> Path:
    """Unpack the zip of a function; return the directory, which functions with the same zip share."""
    directory = runtime.current().scratch / "functions" / function.code_sha256.replace("/", "_")
    with _unpacking:
        if not directory.exists():
            partial = directory.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            with zipfile.ZipFile(io.BytesIO(function.code)) as archive:
                archive.extractall(partial)
            partial.rename(directory)
    return directory
