"""The limits of a job: its deadline, its attempts, its receipts, and the length of one attempt."""

from datetime import UTC, datetime

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.settings import MAX_RECEIPTS
from cosmos_batch.engines.errors import CRASH_REMEDY
from cosmos_batch.state import JobRow
from cosmos_batch.worker.queue import Delivery


def refusal(delivery: Delivery, row: JobRow, environment: WorkerEnvironment) -> Error | None:
    """Return the error of a job that must not run any more because a limit is reached; None if it may run."""
    job = delivery.job
    if job.deadline <= datetime.now(UTC):
        return server_timed_out(job, row.waiting.reason) if row.waiting is not None else too_late(job)
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
    return Error(
        code="TimedOut",
        message=f"{_deadline(job)} passed while the job waited for a server: {reason}"[:MESSAGE_LIMIT],
        remedy="See to it that the server is there and has room, and ask again.",
        retryable=True,
    )


def too_late(job: Job) -> Error:
    """Return the error of a job whose deadline has passed before it was done."""
    return Error(
        code="TimedOut",
        message=f"{_deadline(job)} passed before it was done.",
        remedy="Ask again with a later deadline, or raise maxVCpus so that more workers serve the queue.",
    )


def _deadline(job: Job) -> str:
    return f"The deadline of the request ({job.deadline:%Y-%m-%d %H:%M:%S %Z})"


def timed_out(job: Job, environment: WorkerEnvironment) -> Error:
    """Return the error of an attempt that took longer than `worker.attemptLimitHours`."""
    return Error(
        code="TimedOut",
        message=f"One attempt at {job.subject} took longer than {environment.worker.attempt_limit_hours:g} hours.",
        remedy="Cut the file into shorter clips, or raise worker.attemptLimitHours (11 at most).",
    )
