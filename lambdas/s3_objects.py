"""HEAD and GET of an S3 object, with the ways in which S3 can say no told apart."""

from dataclasses import dataclass
from typing import Any

from cosmos_batch.contract.s3 import S3Location
from lambdas.clients import client

# What S3 calls the version of an object in a bucket that keeps none, or has ceased to.
NO_VERSION = "null"


@dataclass(frozen=True)
class StoredObject:
    """One state of one object."""

    location: S3Location
    version_id: str | None
    etag: str
    size: int
    last_modified: str
    metadata: dict[str, str]

    @property
    def identity(self) -> str:
        """What tells this state from every other of its key.

        Where the bucket keeps no versions: the ETag (two uploads of one content differ in time) with the time (two
        uploads in one second differ in content). S3's `sequencer` will not do: it is in the event of the file only,
        and the event of its sidecar must come to the same identity.
        """
        return self.version_id or f"{self.etag}@{self.last_modified}"


class Missing(Exception):  # noqa: N818 - S3's answer, no fault
    """There is no such object, or no such version of it."""

    def __init__(self, deleted: bool) -> None:
        super().__init__("deleted" if deleted else "missing")
        self.deleted = deleted


class Unreadable(Exception):  # noqa: N818 - S3's answer, no fault
    """S3 does not let us see the object, nor whether there is one."""


def head(location: S3Location, version_id: str | None = None) -> StoredObject:
    """The object as it is, or one version of it. Raises Missing or Unreadable."""
    s3 = client("s3")
    version = {} if version_id is None else {"VersionId": version_id}
    try:
        answer = s3.head_object(Bucket=location.bucket, Key=location.key, **version)
    except s3.exceptions.ClientError as error:
        raise _said_no(error.response, version_id) from error
    return StoredObject(
        location=location,
        version_id=real_version(answer),
        etag=answer["ETag"],
        size=answer["ContentLength"],
        last_modified=answer["LastModified"].isoformat(),
        metadata=answer["Metadata"],
    )


def read(file: StoredObject) -> bytes:
    """Its content, if it is still as HEAD saw it. Raises Missing or Unreadable."""
    s3 = client("s3")
    exactly = {"IfMatch": file.etag} if file.version_id is None else {"VersionId": file.version_id}
    try:
        content: bytes = s3.get_object(Bucket=file.location.bucket, Key=file.location.key, **exactly)["Body"].read()
    except s3.exceptions.ClientError as error:
        raise _said_no(error.response, file.version_id) from error
    return content


def real_version(answer: dict[str, Any]) -> str | None:
    """The version that S3 names in an answer, unless its bucket keeps none."""
    version: str | None = answer.get("VersionId")
    return None if version == NO_VERSION else version


def _said_no(response: dict[str, Any], version_id: str | None) -> Exception:
    """By the status: the answer to HEAD has no body, so it is all that S3 says."""
    status = response["ResponseMetadata"]["HTTPStatusCode"]
    if status == 404:
        headers = response["ResponseMetadata"]["HTTPHeaders"]
        return Missing(deleted=headers.get("x-amz-delete-marker") == "true")
    if status == 405:  # the version asked for is a delete marker
        return Missing(deleted=True)
    if status == 400 and version_id is not None:  # not the form of a version id
        return Missing(deleted=False)
    if status in (400, 403):  # 400: encrypted with a key of its owner's (SSE-C)
        return Unreadable(f"HTTP {status}")
    return RuntimeError(f"S3 answered with HTTP {status}")
