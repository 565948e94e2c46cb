"""The limits of a job: its deadline, its attempts, its receipts, and the length of one attempt."""

from datetime import UTC, datetime

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, Failure, named_deadline, too_late
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.settings import MAX_RECEIPTS
from cosmos_batch.engines.errors import CRASH_REMEDY
from cosmos_batch.state import JobRow
from cosmos_batch.worker.queue import Delivery


def refusal(delivery: Delivery, row: JobRow, environment: WorkerEnvironment) -> Error | None:
    """Return the error of a job that must not run any more because a limit is reached; None if it may run."""
    job = delivery.job
    if job.deadline <= datetime.now(UTC):
        return server_timed_out(job, row.waiting.reason) if row.waiting is not None else too_late(job.deadline)
    if row.attempts >= environment.worker.max_attempts:
        last = row.last_error
        remedy = last.remedy if last is not None else CRASH_REMEDY
        return Failure(
            "EngineFailed",
            f"The engine died or failed {row.attempts} times on {job.subject}. {last.message if last else ''}",
            f"{remedy} The log of Batch job {row.worker or environment.aws_batch_job_id} says more.",
        ).error
    unexplained = delivery.receipts - row.pauses - row.give_backs
    if unexplained > MAX_RECEIPTS:
        return Error(
            code="Internal",
            message=f"Workers received the job {unexplained} times, and none brought it to an end or gave it back.",
            remedy=f"See the log of Batch job {row.worker or environment.aws_batch_job_id}; start the job again.",
            retryable=True,
        )
    return None


def server_timed_out(job: Job, reason: str) -> Error:
    """Return the error of a job whose deadline passes while a remote server is busy or away."""
    message = f"{named_deadline(job.deadline)} passed while the job waited for a server: {reason}"
    return Error(
        code="TimedOut",
        message=message[:MESSAGE_LIMIT],
        remedy="See to it that the server is there and has room, and ask again.",
        retryable=True,
    )


def timed_out(job: Job, environment: WorkerEnvironment) -> Error:
    """Return the error of an attempt that took longer than `worker.attemptLimitHours`."""
    return Error(
        code="TimedOut",
        message=f"One attempt at {job.subject} took longer than {environment.worker.attempt_limit_hours:g} hours.",
        remedy="Cut the file into shorter clips, or raise worker.attemptLimitHours (11 at most).",
    )
