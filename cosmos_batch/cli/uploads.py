"""Upload files of this machine to where a deployment takes files from."""

import io
import os
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract.s3 import OBJECT_MARKER, UPLOAD_FOLDER, S3Location, join_below

# The codes with which S3 refuses a bucket that this person may not write to, or that does not exist.
CLOSED = ("AccessDenied", "AllAccessDisabled", "403", "NoSuchBucket", "404")

# Marks an object as uploaded by a command, so that its arrival starts no job by itself.
SUBMITTED = {"Metadata": {OBJECT_MARKER: "submitted"}}


class Uploads:
    """Uploads files to the first of the deployment's buckets that this person may write to.

    Each file has a folder of its own, so that no upload replaces another, and carries a marker in its metadata, so
    that the trigger of uploads starts no second job for it.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._s3 = deployment.clients("s3")
        self._roots = list(deployment.asset_roots)

    def put(self, path: Path, name: str | None = None) -> str:
        """Upload a file and return its URI. Raises CliError where this person may write to none of the buckets.

        `name` is its path below the upload's folder; the file's name if absent.
        """
        return self._put(name or path.name, lambda: path.open("rb"))

    def put_text(self, name: str, text: str) -> str:
        """Upload a text as a file of this name and return its URI. Raises CliError as `put` does."""
        return self._put(name, lambda: io.BytesIO(text.encode()))

    def new_folder(self) -> str:
        """Return the URI of an empty folder for results."""
        return _new_place(self._roots[0], "").uri

    def _put(self, name: str, opened: Callable[[], BinaryIO]) -> str:
        """Upload the file that `opened` opens.

        It is called for each bucket that is tried, because boto3 may close the file.
        """
        from botocore.exceptions import ClientError

        closed = []
        for root in self._roots:
            place = _new_place(root, name)
            try:
                with opened() as content:
                    self._s3.upload_fileobj(content, *place, ExtraArgs=SUBMITTED)
            except ClientError as error:
                if error.response["Error"]["Code"] not in CLOSED:
                    raise
                closed.append(root)
                continue
            self._roots = [root for root in self._roots if root not in closed]
            return place.uri
        raise CliError(
            f"You may not upload to {' or '.join(closed)}.",
            "Ask for the right to s3:PutObject there; or name a file that lies in one of them already, as s3://...",
        )


def upload_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Return the name under which each file is uploaded: its path below the folder that all of them share."""
    absolute = [path.absolute() for path in paths]
    if len(absolute) < 2:
        return {path: path.name for path in paths}
    shared = os.path.commonpath([path.parent for path in absolute])
    return {path: join_below("", os.path.relpath(full, shared)) for path, full in zip(paths, absolute, strict=True)}


def _new_place(root: str, name: str) -> S3Location:
    """Return a new folder below a root, which is `bucket` or `bucket/prefix/`, and `name` in it."""
    bucket, _, prefix = root.partition("/")
    folder = f"{UPLOAD_FOLDER}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"
    return S3Location(bucket, f"{prefix}{folder}/{name}")
