"""Describe how the result that a job generates again was generated the first time."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.s3 import S3Uri


class DocumentedInput(Model):
    """An input file in the version that was used."""

    uri: S3Uri
    version_id: str | None = Field(description="None if the bucket keeps no versions")
    path: str | None = Field(
        default=None, description="Path on the machine that ran the generation itself; only the command line sets it"
    )
    sha256: str | None = Field(default=None, description="SHA-256 of the file at `path`")


class Origin(Model):
    """The model, engine and files of an earlier generation, which a job repeats."""

    model: str
    revision: str
    engine: str = Field(description="Name and version, with its lossy modes")
    files: list[DocumentedInput]
    given_prompt: str | None = Field(
        default=None, description="The caller's own prompt, if a model had rewritten the one that was used"
    )

    def with_another_prompt(self) -> "Origin":
        """Return this origin for a request that has a prompt of its own beside the document."""
        return self.model_copy(update={"given_prompt": None})

    def version_of(self, uri: str) -> str | None:
        """Return the version of a file that the earlier generation used; None for the latest."""
        return next((file.version_id for file in self.files if file.uri == uri), None)
