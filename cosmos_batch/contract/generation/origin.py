"""What is made again was made before: by what, and of which files."""

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.s3 import S3Uri


class DocumentedInput(Model):
    """A file that something was made of, in the state that it had."""

    uri: S3Uri
    version_id: str | None = Field(description="None where the bucket keeps no versions")
    path: str | None = Field(
        default=None, description="Where it lies on the machine that made it for itself; only the command line says so"
    )
    sha256: str | None = Field(default=None, description="Of that file")


class Origin(Model):
    """Of something that is made again."""

    model: str
    revision: str
    engine: str = Field(description="Name and version, with its lossy modes")
    files: list[DocumentedInput]
    given_prompt: str | None = Field(default=None, description="As a caller wrote it, of a prompt that a model wrote")

    def with_another_prompt(self) -> "Origin":
        """Where a caller says one beside the document."""
        return self.model_copy(update={"given_prompt": None})

    def version_of(self, uri: str) -> str | None:
        """The state of a file that was looked at; None for the latest."""
        return next((one.version_id for one in self.files if one.uri == uri), None)
