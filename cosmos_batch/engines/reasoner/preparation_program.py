"""The program of a process that prepares requests: it decodes a job's files and builds the request for a server.

    python -P -m cosmos_batch.engines.reasoner.preparation_program CHECKPOINT CONTEXT

It first writes an empty line, when it is ready. Then it reads tasks from standard input and writes their results to
standard output, a line of JSON each, one after the other, until its input ends. That also ends the task in hand: the
worker has ended. An exception that is no Failure ends the program, with its traceback on standard error.
"""

import os
import select
import sys
from pathlib import Path
from typing import Any

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_threads import LESS_URGENT
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request


class PreparationTask(Model):
    """A job whose request is to be prepared."""

    job: Job
    paths: list[str] = Field(description="The job's files, in the order of its inputs")


class WrittenRequest(Model):
    """A `ChatRequest` as one process writes it and another reads it."""

    body: dict[str, Any]
    lines: list[str]
    notes: list[str]
    tokens: int
    timings: dict[str, float]
    frame_times: list[float]


class PreparationResult(Model):
    """What came of a task."""

    outcome: WrittenRequest | Error


def main() -> None:
    """Prepare requests until standard input ends."""
    os.setpriority(os.PRIO_PROCESS, 0, LESS_URGENT)
    results = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not come between the results
    checkpoint = CheckpointInfo.from_folder(Path(sys.argv[1]), int(sys.argv[2]))
    results.write(b"\n")
    for line in sys.stdin.buffer:
        outcome = _outcome(checkpoint, PreparationTask.model_validate_json(line))
        results.write(PreparationResult(outcome=outcome).model_dump_json().encode() + b"\n")


def _outcome(checkpoint: CheckpointInfo, task: PreparationTask) -> WrittenRequest | Error:
    try:
        request = prepare_request(checkpoint, task.job, [Path(path) for path in task.paths], _check_for_end)
    except Failure as failure:
        return failure.error
    return _with_lines(request)


def _check_for_end() -> None:
    """End this program if its input has ended: while it has a task in hand, nothing else can be read there."""
    if select.select([sys.stdin], [], [], 0)[0]:
        sys.exit("The worker that asked for a request has ended.")


def _with_lines(request: ChatRequest) -> WrittenRequest:
    return WrittenRequest(
        body=request.body,
        lines=request.journal.lines,
        notes=request.notes,
        tokens=request.tokens,
        timings=request.timings,
        frame_times=request.frame_times,
    )


if __name__ == "__main__":
    main()
