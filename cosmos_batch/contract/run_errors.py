"""The document that a run on several files leaves beside its results where some of the files failed."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.s3 import S3Location, join_below

FILE_NAME = "CosmosBatchErrors_"


class FailedFile(Model):
    """One file that has no result."""

    file: str = Field(description="Its path within its asset; after the asset's id, where the run has files of several")
    job_id: str | None = Field(description="The execution that failed")
    error: Error


class RunErrors(Model):
    """Written as JSON to `<prefix>/CosmosBatchErrors_<timestamp>_<end of the run's id>.json`."""

    run_id: str
    timestamp: str = Field(description="When the run began: YYYYMMDD-HHMMSS, UTC")
    files: int = Field(description="Of the run, those with a result included")
    failed: list[FailedFile] = Field(min_length=1)

    def location(self, prefix: S3Location) -> S3Location:
        """Where it lies below the run's prefix. Two runs of one second have two names."""
        name = f"{FILE_NAME}{self.timestamp}_{self.run_id[-8:]}.json"
        return S3Location(prefix.bucket, join_below(prefix.key, name))
