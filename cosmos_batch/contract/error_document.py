"""The document beside an uploaded file of which there is no result: its uploader may see nothing but the bucket."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Error


class ErrorDocument(Model):
    """Written as JSON to `<inputStem>_CosmosError_<timestamp>.json`, in the folder of the file that was uploaded."""

    error: Error
    input_file: str = Field(description="The uploaded file: S3 URI")
    input_version_id: str | None = Field(description="Its S3 version; None where the bucket keeps none")
    pipeline: str
    job_id: str
    timestamp: str = Field(description="YYYYMMDD-HHMMSS, UTC: when the job started")
