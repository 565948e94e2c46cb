"""Make the jobs that benchmarks give to a worker or an engine."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.contract.parameters import Parameters


def new_job(job_id: str, pipeline: str, document: OutputKey, **fields: Any) -> Job:
    """Return a job that was planned just now and has an hour. `fields` are its others, such as `input` and `prompt`."""
    now = datetime.now(UTC)
    planned: dict[str, Any] = {"prompt_uri": None, "parameters": Parameters(), "invalidate_model": False, **fields}
    return Job(
        job_id=job_id,
        execution_arn=job_id,
        pipeline=pipeline,
        document=document,
        timestamp=now.strftime("%Y%m%d-%H%M%S"),
        created_at=now,
        deadline=now + timedelta(hours=1),
        **planned,
    )
