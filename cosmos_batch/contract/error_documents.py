"""The documents about failed jobs that are written to the bucket of the input, where the uploader can read them."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.s3 import S3Location, join_below

FILE_NAME = "CosmosBatchErrors_"


class ErrorDocument(Model):
    """The document of a failed job: `<inputStem>_CosmosError_<timestamp>.json` in the folder of the uploaded file."""

    error: Error
    input_file: str = Field(description="The uploaded file: S3 URI")
    input_version_id: str | None = Field(description="Its S3 version; None where the bucket keeps none")
    pipeline: str
    job_id: str
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC: when the job started")


class FailedFile(Model):
    """A file without a result."""

    file: str = Field(description="Its path within its asset; after the asset's id, where the run has files of several")
    job_id: str | None = Field(description="The job that failed; None where it could not be planned")
    error: Error


class RunErrors(Model):
    """The document of a run with failed files: `<prefix>/CosmosBatchErrors_<timestamp>_<end of the run's id>.json`."""

    run_id: str
    timestamp: str = Field(description="When the run began: YYYYMMDD-HHMMSS, UTC")
    files: int = Field(description="The number of files of the run, those with a result included")
    failed: list[FailedFile] = Field(min_length=1)

    def location(self, prefix: S3Location) -> S3Location:
        """Return where the document is written below the run's prefix. Runs of the same second have different names."""
        name = f"{FILE_NAME}{self.timestamp}_{self.run_id[-8:]}.json"
        return S3Location(prefix.bucket, join_below(prefix.key, name))
