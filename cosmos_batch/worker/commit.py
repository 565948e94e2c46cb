"""Commits the end of a job: the result is decided once, and then stored and reported until that has succeeded.

1. An attempt keeps its document (`StagedDocuments`), and uploads other files to `jobs/<job id>/<attempt>/` in the state
   bucket.
2. One conditional write in the state table makes this attempt the job's winner, or shows that another has won, or that
   the job has ended and was planned anew since the attempt began.
3. The winner's document and files are written to their final keys, those who wait for the job are told, the message is
   deleted.

An execution is told the result by its task token. An item of a run is counted in its shard, and the shard's token is
answered with its last item (decision 074).

If a worker ends after step 2, whichever worker receives the message next repeats step 3.
"""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from botocore.exceptions import ClientError

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, Failure
from cosmos_batch.contract.generation.outputs import content_type
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location, parse_uri
from cosmos_batch.state import ConditionFailed, ItemFacts, JobRow, Jobs, StagedDocuments
from cosmos_batch.state.table import now
from cosmos_batch.store.s3_retries import may_succeed_later
from cosmos_batch.worker.callers import Callers
from cosmos_batch.worker.job_attempt import JobAttempt, stage_reached
from cosmos_batch.worker.outputs import JobOutputs
from cosmos_batch.worker.queue import Delivery, Queue

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Committer:
    """Stores and reports results. Every call blocks."""

    s3: Any
    jobs: Jobs
    callers: Callers
    queue: Queue
    documents: StagedDocuments
    state_bucket: str

    def succeed(self, attempt: JobAttempt, outputs: JobOutputs, facts: ItemFacts | None = None) -> None:
        """Commit an attempt's outputs as the job's result. If another attempt was faster, finish that one instead.

        `facts` are those of an item of a run. It can be repeated after any failure.

        Raises Failure where AWS refuses to store the outputs.
        """
        job, attempt_id, inferred_at = attempt.job, attempt.attempt_id, now()
        body = outputs.document.encode()
        objects = [_output(job, job.document.key, len(body))]
        objects += [_generated_output(job, key, path) for key, path in outputs.files.items()]
        needed = f"dynamodb:UpdateItem on the state table and s3:PutObject on bucket {self.state_bucket}"
        with _refusals_as_failures(job, needed):
            self.documents.keep(job.job_id, attempt_id, body)
            for number, path in enumerate(outputs.files.values(), 1):
                with path.open("rb") as file:
                    self._put(job, attempt_id, number, objects[number], file)
        result = Result(job_id=job.job_id, outputs=objects, timings=outputs.timings, usage=outputs.usage)
        self._decide(attempt, result, inferred_at, facts, body)

    def _put(self, job: Job, attempt_id: str, number: int, output: Output, file: BinaryIO) -> None:
        self.s3.put_object(
            Bucket=self.state_bucket,
            Key=_attempt_key(job, attempt_id, number),
            Body=file,
            ContentType=output.content_type,
        )

    def fail(self, attempt: JobAttempt, error: Error, facts: ItemFacts | None = None) -> None:
        """Commit a job's failure, unless an attempt has won already."""
        log.warning("failed", extra={"jobId": attempt.job.job_id, "code": error.code})
        self._decide(attempt, Result(job_id=attempt.job.job_id, error=error), facts=facts)

    def _decide(
        self,
        attempt: JobAttempt,
        result: Result,
        inferred_at: str | None = None,
        facts: ItemFacts | None = None,
        document: bytes | None = None,
    ) -> None:
        delivery, job_id, attempt_id = attempt.delivery, attempt.job.job_id, attempt.attempt_id
        try:
            row = self.jobs.commit(job_id, attempt_id, result, inferred_at, facts, attempt.planned_at)
        except ConditionFailed:
            log.info("the attempt does not decide the job", extra={"jobId": job_id, "attempt": attempt_id})
            self.jobs.add_cost(job_id, attempt_id, facts)
            decided = self.jobs.get(job_id)
            assert decided is not None, "a condition on this row has failed"
            row = decided
            if row.state in ("PLANNED", "RUNNING"):
                log.info("the job was planned anew: another attempt decides it", extra={"jobId": job_id})
                self.queue.abandon(delivery.receipt_handle)
                return
        else:
            stage_reached("committed", delivery.job)
        self.finish(delivery, row, document if row.winner == attempt_id else None)

    def finish(self, delivery: Delivery, row: JobRow, document: bytes | None = None) -> None:
        """Store and report a decided result, or count it in the shards of runs, and delete the message.

        `document` is the winner's document, if the caller has it; otherwise it is read from where its attempt kept it.

        Once the result was reported, no file is written again, because VAMS moves the files away. If AWS refuses to
        write them, the job fails with that error.

        A job that was planned again has messages with different task tokens. So a result that was reported for another
        message is reported for this one too; it is no error if this token was answered before.
        """
        if row.state == "COMMITTED":
            row = self._deliver(delivery, row, document)
        elif row.result is not None:
            self.callers.report(delivery, row.result)
        if delivery.task_token is None:
            self.callers.count(row)
        self.queue.delete(delivery.receipt_handle)

    def _deliver(self, delivery: Delivery, row: JobRow, document: bytes | None) -> JobRow:
        """Write the files of a committed result, tell an execution of it, and return the job's row, which is final."""
        assert row.result is not None and row.winner is not None, "commit writes the three at once"
        result, written_at = row.result, None
        try:
            if not delivery.table_only:
                written_at = self._publish(delivery.job, row.winner, result, document)
        except Failure as failure:
            log.exception("the result cannot be written", extra={"jobId": row.job_id})
            result = Result(job_id=row.job_id, error=failure.error)
        self.callers.report(delivery, result)
        stage_reached("calledBack", delivery.job)
        log.info("reported", extra={"jobId": row.job_id, "succeeded": result.succeeded})
        return self.jobs.finish(row.job_id, result.error, written_at) or row

    def _publish(self, job: Job, winner: str, result: Result, document: bytes | None) -> str | None:
        """Copy the winning attempt's files to their final keys, and return the time; None for an error."""
        if result.error is not None:
            return None
        for number, output in reversed(list(enumerate(result.outputs))):  # the document is the last to appear
            self._write(job, winner, number, output, document)
        stage_reached("written", job)
        return now()

    def _write(self, job: Job, winner: str, number: int, output: Output, document: bytes | None) -> None:
        """Write an output of the winner, number 0 of which is the document, to its final key."""
        bucket, key = parse_uri(output.uri)
        final = {
            "Bucket": bucket,
            "Key": key,
            "ContentType": output.content_type,
            "Metadata": {OBJECT_MARKER: job.job_id},
        }
        needed = (
            f"dynamodb:GetItem on the state table, s3:GetObject on bucket {self.state_bucket} "
            f"and s3:PutObject on bucket {bucket}"
        )
        with _refusals_as_failures(job, needed):
            if number == 0:
                body = self.documents.read(job.job_id, winner) if document is None else document
                self.s3.put_object(**final, Body=body)
            else:
                source = {"Bucket": self.state_bucket, "Key": _attempt_key(job, winner, number)}
                self.s3.copy_object(**final, CopySource=source, MetadataDirective="REPLACE")


def not_stored(job: Job, fault: Exception) -> Error:
    """Return the error of a job whose result could not be stored, because a request to AWS failed with `fault`."""
    return Error(
        code="Internal",
        message=f"The result of {job.subject} could not be stored: {type(fault).__name__}: {fault}"[:MESSAGE_LIMIT],
        remedy="See to it that the worker's role may write to the state table and the buckets, and that it reaches "
        "them; then start the job again.",
        retryable=True,
    )


@contextmanager
def _refusals_as_failures(job: Job, permissions: str) -> Iterator[None]:
    """Raise Failure where AWS refuses a request for a lasting cause; the request needs `permissions`."""
    try:
        yield
    except ClientError as error:
        if may_succeed_later(error):
            raise
        raise Failure(
            "Internal",
            f"AWS refused to store the result of {job.subject}, which needs {permissions}: {error}",
            f"Allow the worker's role {permissions}, and the use of the KMS keys of these stores; "
            "then start the job again.",
            retryable=True,
        ) from error


def _output(job: Job, key: str, size: int) -> Output:
    return Output(uri=S3Location(job.document.bucket, key).uri, size=size, content_type=content_type(key))


def _generated_output(job: Job, key: str, path: Path) -> Output:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return _output(job, key, path.stat().st_size).model_copy(update={"sha256": digest})


def _attempt_key(job: Job, attempt_id: str, number: int) -> str:
    """Return where an attempt uploads its output `number`; number 0 is the document, which `StagedDocuments` keeps."""
    return f"jobs/{job.job_id}/{attempt_id}/file-{number}"
