"""Why a job is not begun, or not awaited any longer."""

from datetime import UTC, datetime

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines import BREAKS_ENGINE
from cosmos_batch.state import JobRow


def refusal(job: Job, row: JobRow, environment: WorkerEnvironment) -> Error | None:
    """Why the engine shall not see the job, if so."""
    if job.deadline <= datetime.now(UTC):
        return Error(
            code="TimedOut",
            message=f"The deadline of the request ({job.deadline:%Y-%m-%d %H:%M:%S %Z}) passed before its turn.",
            remedy="Ask again with a later deadline, or raise maxVCpus so that more workers serve the queue.",
        )
    if row.attempts >= environment.worker.max_attempts:
        last = row.last_error
        remedy = last.remedy if last is not None else BREAKS_ENGINE
        return Failure(
            "EngineFailed",
            f"The engine died or failed {row.attempts} times on {job.subject}. {last.message if last else ''}",
            f"{remedy} The log of Batch job {row.worker or environment.aws_batch_job_id} says more.",
        ).error
    return None


def timed_out(job: Job, environment: WorkerEnvironment) -> Error:
    """Of an attempt that took too long."""
    return Error(
        code="TimedOut",
        message=f"One attempt at {job.subject} took longer than {environment.worker.attempt_limit_hours:g} hours.",
        remedy="Cut the file into shorter clips, or raise worker.attemptLimitHours (11 at most).",
    )
