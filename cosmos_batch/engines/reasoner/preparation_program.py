"""The program of a process that prepares requests: it decodes a job's files and builds the request for a server.

    python -P -m cosmos_batch.engines.reasoner.preparation_program CHECKPOINT CONTEXT

It first writes an empty line, when it is ready. Then it reads tasks from standard input and writes their results to
standard output, a line of JSON each, one after the other, until its input ends. That also ends the task in hand: the
worker has ended.
"""

import os
import select
import sys
import traceback
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.job_threads import become_less_urgent
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.chat_request import ChatRequest, CheckpointInfo, prepare_request

_OURS = "cosmos_batch"


class PreparationTask(Model):
    """A job whose request is to be prepared."""

    job: Job
    paths: list[str] = Field(description="The job's files, in the order of its inputs")


class WrittenRequest(Model):
    """A `ChatRequest` as one process writes it and another reads it."""

    body: dict[str, Any]
    lines: list[str] = Field(description="The log lines of the answer so far")
    notes: list[str]
    tokens: int
    timings: dict[str, float]
    frame_times: list[float]

    @classmethod
    def of(cls, request: ChatRequest) -> Self:
        """Return what is written of a request."""
        fields = {name: value for name, value in vars(request).items() if name != "journal"}
        return cls(**fields, lines=request.journal.lines)

    def read(self) -> ChatRequest:
        """Return the request."""
        journal = Journal()
        journal.lines += self.lines
        fields = {name: getattr(self, name) for name in type(self).model_fields if name != "lines"}
        return ChatRequest(journal=journal, **fields)


class UnexpectedError(Model):
    """An exception that no Failure describes. Its text is left out: it may quote a prompt."""

    kind: str = Field(description="The exception's class")
    errno: int | None = Field(description="The number of an OSError")
    place: str = Field(description="The last line of our code that was at work")


class PreparationResult(Model):
    """The result of a task: the request, or the error for which there is none."""

    outcome: WrittenRequest | Error | UnexpectedError


def main() -> None:
    """Prepare requests until standard input ends."""
    become_less_urgent()
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the results
    checkpoint = CheckpointInfo.from_folder(Path(sys.argv[1]), int(sys.argv[2]))
    results.write(b"\n")
    results.flush()
    for line in sys.stdin.buffer:
        result = PreparationResult(outcome=_outcome(checkpoint, line))
        results.write(result.model_dump_json().encode() + b"\n")
        results.flush()


def _outcome(checkpoint: CheckpointInfo, line: bytes) -> WrittenRequest | Error | UnexpectedError:
    try:
        task = PreparationTask.model_validate_json(line)
        paths = [Path(path) for path in task.paths]
        return WrittenRequest.of(prepare_request(checkpoint, task.job, paths, _check_for_end))
    except Failure as failure:
        return failure.error
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        return UnexpectedError(kind=type(error).__name__, errno=number, place=_place(error))


def _place(error: Exception) -> str:
    """Return file, line and function of ours in which an exception was raised, or which called what raised it."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _OURS in frame.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} in {ours[-1].name}" if ours else "unknown"


def _check_for_end() -> None:
    """End this program if its input has ended. `select` reports an end as something to read, and while a task is in
    hand nothing else comes.
    """
    if select.select([sys.stdin], [], [], 0)[0]:
        sys.exit("The worker that asked for a request has ended.")


if __name__ == "__main__":
    main()
