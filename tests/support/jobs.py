"""Creates a job for tests of the state table."""

from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.parameters import Parameters


def make_job(job_id: str) -> Job:
    return Job(
        job_id=job_id,
        execution_arn=f"arn:execution:{job_id}",
        pipeline="cosmos-reason2-2b",
        input=InputFile(bucket="assets", key="clip.mp4", version_id=None, etag='"e"', size=1),
        prompt="What happens?",
        prompt_uri=None,
        system_prompt="You are helpful.",
        parameters=Parameters(),
        document=OutputKey(bucket="assets", key=f"{job_id}.json"),
        timestamp="20260410-165029",
        created_at="2026-04-10T16:50:29Z",
        deadline="2126-04-11T16:50:29Z",
        invalidate_model=False,
    )
