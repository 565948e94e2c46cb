"""Why a job is not begun, or not awaited any longer."""

from datetime import UTC, datetime

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.settings import MAX_RECEIPTS
from cosmos_batch.engines.errors import CRASH_REMEDY
from cosmos_batch.state import JobRow
from cosmos_batch.worker.queue import Delivery


def refusal(delivery: Delivery, row: JobRow, environment: WorkerEnvironment) -> Error | None:
    """Why the engine shall not see the job, if so."""
    job = delivery.job
    if job.deadline <= datetime.now(UTC):
        return waited_in_vain(job, row.waiting.reason) if row.waiting is not None else _too_late(job)
    if row.attempts >= environment.worker.max_attempts:
        last = row.last_error
        remedy = last.remedy if last is not None else CRASH_REMEDY
        return Failure(
            "EngineFailed",
            f"The engine died or failed {row.attempts} times on {job.subject}. {last.message if last else ''}",
            f"{remedy} The log of Batch job {row.worker or environment.aws_batch_job_id} says more.",
        ).error
    if delivery.receipts - row.pauses > MAX_RECEIPTS:
        return Error(
            code="Internal",
            message=f"Workers received the job {delivery.receipts} times, and none brought it to an end.",
            remedy=f"See the log of Batch job {row.worker or environment.aws_batch_job_id}; start the job again.",
            retryable=True,
        )
    return None


def waited_in_vain(job: Job, reason: str) -> Error:
    """Of a job whose engine asks a server that was busy or away for too long."""
    return Error(
        code="TimedOut",
        message=f"{_deadline(job)} passed while the job waited for a server: {reason}"[:MESSAGE_LIMIT],
        remedy="See to it that the server is there and has room, and ask again.",
        retryable=True,
    )


def _too_late(job: Job) -> Error:
    return Error(
        code="TimedOut",
        message=f"{_deadline(job)} passed before its turn.",
        remedy="Ask again with a later deadline, or raise maxVCpus so that more workers serve the queue.",
    )


def _deadline(job: Job) -> str:
    return f"The deadline of the request ({job.deadline:%Y-%m-%d %H:%M:%S %Z})"


def timed_out(job: Job, environment: WorkerEnvironment) -> Error:
    """Of an attempt that took too long."""
    return Error(
        code="TimedOut",
        message=f"One attempt at {job.subject} took longer than {environment.worker.attempt_limit_hours:g} hours.",
        remedy="Cut the file into shorter clips, or raise worker.attemptLimitHours (11 at most).",
    )
