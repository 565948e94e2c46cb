"""The end of a job: decided once, written once, told once, however often it is tried.

An attempt writes its files below `jobs/<job id>/<attempt>/` in our own bucket. One conditional write in the state
table makes it the winner. The winner's files are copied to the final keys, the state machine is told, the message is
deleted. Every step after the decision can be taken again by whoever receives the message next.
"""

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.generation.outputs import Role, content_type
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Output, Result, Usage
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, parse_uri
from cosmos_batch.state import ConditionFailed, JobRow, Jobs
from cosmos_batch.state.table import now
from cosmos_batch.worker.queue import Delivery, Queue
from cosmos_batch.worker.stages import reached
from cosmos_batch.worker.task_tokens import TaskTokens

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deliverable:
    """A file, and the key in the document's bucket that it goes to."""

    path: Path
    role: Role
    key: str

    @property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size


@dataclass(frozen=True)
class Outcome:
    """A good end: the document's text, and the files that lie beside it."""

    document: str
    timings: dict[str, float]
    usage: Usage | None = None
    files: list[Deliverable] = field(default_factory=list)


@dataclass(frozen=True)
class Committer:
    """Where results go. Every call blocks."""

    s3: Any
    jobs: Jobs
    tasks: TaskTokens
    queue: Queue
    state_bucket: str

    def succeed(self, delivery: Delivery, attempt_id: str, outcome: Outcome) -> None:
        """Bring a job to its good end, or step back behind an attempt that was faster."""
        job, inferred_at = delivery.job, now()
        body = outcome.document.encode()
        outputs = [_output(job, job.document.key, len(body))]
        outputs += [_output(job, file.key, file.size) for file in outcome.files]
        self._put(job, attempt_id, 0, outputs[0], body)
        for number, file in enumerate(outcome.files, 1):
            with file.path.open("rb") as opened:
                self._put(job, attempt_id, number, outputs[number], opened)
        result = Result(job_id=job.job_id, outputs=outputs, timings=outcome.timings, usage=outcome.usage)
        self._decide(delivery, attempt_id, result, inferred_at)

    def _put(self, job: Job, attempt_id: str, number: int, output: Output, body: Any) -> None:
        self.s3.put_object(
            Bucket=self.state_bucket,
            Key=_attempt_key(job, attempt_id, number),
            Body=body,
            ContentType=output.content_type,
        )

    def fail(self, delivery: Delivery, attempt_id: str, error: Error) -> None:
        """Bring a job to its bad end; it too is decided only once."""
        log.warning("failed", extra={"jobId": delivery.job.job_id, "code": error.code})
        self._decide(delivery, attempt_id, Result(job_id=delivery.job.job_id, error=error))

    def _decide(self, delivery: Delivery, attempt_id: str, result: Result, inferred_at: str | None = None) -> None:
        job_id = delivery.job.job_id
        try:
            row = self.jobs.commit(job_id, attempt_id, result, inferred_at)
        except ConditionFailed:
            log.info("came second", extra={"jobId": job_id, "attempt": attempt_id})
            decided = self.jobs.get(job_id)
            assert decided is not None, "a condition failed on it"
            row = decided
        else:
            reached("committed", delivery.job)
        self.finish(delivery, row)

    def finish(self, delivery: Delivery, row: JobRow) -> None:
        """Everything after the decision. Once the caller was told, nothing is written again: VAMS moves files away."""
        if row.state == "COMMITTED":
            assert row.result is not None and row.winner is not None, "commit writes the three at once"
            written_at = self._publish(delivery.job, row.winner, row.result)
            self.tasks.report(delivery.task_token, row.result)
            reached("calledBack", delivery.job)
            log.info("reported", extra={"jobId": row.job_id, "succeeded": row.result.succeeded})
            self.jobs.finish(row.job_id, row.result.error, written_at)
        self.queue.delete(delivery.receipt_handle)

    def _publish(self, job: Job, winner: str, result: Result) -> str | None:
        """Copy the winner's files to their final keys; returns when they were there. An error has no files."""
        if result.error is not None:
            return None
        for number, output in reversed(list(enumerate(result.outputs))):  # with the document, all is there
            bucket, key = parse_uri(output.uri)
            self.s3.copy_object(
                CopySource={"Bucket": self.state_bucket, "Key": _attempt_key(job, winner, number)},
                Bucket=bucket,
                Key=key,
                ContentType=output.content_type,
                Metadata={OBJECT_MARKER: job.job_id},
                MetadataDirective="REPLACE",
            )
        reached("written", job)
        return now()


def _output(job: Job, key: str, size: int) -> Output:
    return Output(uri=S3Location(job.document.bucket, key).uri, size=size, content_type=content_type(key))


def _attempt_key(job: Job, attempt_id: str, number: int) -> str:
    """Of a job's files, by their place among its outputs."""
    return f"jobs/{job.job_id}/{attempt_id}/{f'file-{number}' if number else 'document.json'}"
