"""Read objects of S3 (HEAD and GET), and tell a missing, a deleted and a forbidden object apart."""

from dataclasses import dataclass
from typing import Any

from cosmos_batch.catalogue.aws_errors import may_pass
from cosmos_batch.contract.s3 import S3Location
from lambdas.clients import client

# The version id of an object that was written while its bucket had no versioning, or versioning was suspended.
NO_VERSION = "null"

# HTTP statuses of an object that may not be read. 400: its key is kept by its owner (SSE-C), or disabled in KMS.
_REFUSED = (400, 403)


@dataclass(frozen=True)
class StoredObject:
    """A version of an object, or its present state in a bucket without versioning."""

    location: S3Location
    version_id: str | None
    etag: str
    size: int
    last_modified: str
    metadata: dict[str, str]

    @property
    def identity(self) -> str:
        """Return a text that differs from that of every other state of the same key.

        It is the version id. Without versioning it is the ETag and the time of the last change: two uploads of equal
        content differ in time, and two uploads within a second differ in content. S3's `sequencer` is no alternative,
        because only the event of the file has it, and the event of its sidecar must lead to the same identity.
        """
        return self.version_id or f"{self.etag}@{self.last_modified}"


class Missing(Exception):  # noqa: N818 - S3's answer, no fault
    """There is no such object, or no such version of it; `deleted` if a delete marker says so."""

    def __init__(self, deleted: bool) -> None:
        super().__init__("deleted" if deleted else "missing")
        self.deleted = deleted


class Unreadable(Exception):  # noqa: N818 - S3's answer, no fault
    """S3 forbids us to read the object, or even to know whether it exists."""


def head(location: S3Location, version_id: str | None = None) -> StoredObject:
    """Return the latest state of an object, or one version of it. Raises Missing or Unreadable."""
    s3 = client("s3")
    version = {} if version_id is None else {"VersionId": version_id}
    try:
        answer = s3.head_object(Bucket=location.bucket, Key=location.key, **version)
    except s3.exceptions.ClientError as error:
        raise _refusal(error, version_id) from error
    return StoredObject(
        location=location,
        version_id=real_version(answer),
        etag=answer["ETag"],
        size=answer["ContentLength"],
        last_modified=answer["LastModified"].isoformat(),
        metadata=answer["Metadata"],
    )


def read(file: StoredObject) -> bytes:
    """Return the content of exactly this state of an object. Raises Missing or Unreadable."""
    s3 = client("s3")
    condition = {"IfMatch": file.etag} if file.version_id is None else {"VersionId": file.version_id}
    try:
        content: bytes = s3.get_object(Bucket=file.location.bucket, Key=file.location.key, **condition)["Body"].read()
    except s3.exceptions.ClientError as error:
        raise _refusal(error, file.version_id) from error
    return content


def real_version(answer: dict[str, Any]) -> str | None:
    """Return the version id in an answer of S3; None where the bucket has no versioning."""
    version: str | None = answer.get("VersionId")
    return None if version == NO_VERSION else version


def is_refused(error: Any) -> bool:
    """Return whether a ClientError says that we may not read an object, and will say so again."""
    return error.response["ResponseMetadata"]["HTTPStatusCode"] in _REFUSED and not may_pass(error.response)


def _refusal(error: Any, version_id: str | None) -> Exception:
    """Return the exception for an answer's HTTP status: the answer to HEAD has no body, and so no error code."""
    metadata = error.response["ResponseMetadata"]
    status = metadata["HTTPStatusCode"]
    if status == 404:
        return Missing(deleted=metadata["HTTPHeaders"].get("x-amz-delete-marker") == "true")
    if status == 405:  # the requested version is a delete marker
        return Missing(deleted=True)
    if not is_refused(error):
        return RuntimeError(f"S3 answered with HTTP {status}")
    if status == 400 and version_id is not None:  # the version id is malformed
        return Missing(deleted=False)
    return Unreadable(f"HTTP {status}")
