"""Files of this machine, put where a deployment takes files from."""

import io
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from botocore.exceptions import ClientError

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.contract.s3 import OBJECT_MARKER, S3Location

FOLDER = "uploads"

# S3's words for a bucket that a person may not write to, or that is not there.
_CLOSED = ("AccessDenied", "AllAccessDisabled", "403", "NoSuchBucket", "404")


class Uploads:
    """Puts files into the first of the deployment's buckets that this person may write to.

    Each file has a folder of its own, so that no other upload takes its place, and is marked as ours: whatever its
    extension or its bucket triggers, it starts no run by itself.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._s3 = deployment.clients("s3")
        self._roots = list(deployment.asset_roots)

    def put(self, path: Path) -> str:
        """Upload a file. Returns its URI. Raises CliError where this person may write to none of the buckets."""
        return self._put(path.name, lambda: path.open("rb"))

    def put_text(self, name: str, text: str) -> str:
        """Upload a text as a file of this name. Returns its URI. Raises CliError as `put` does."""
        return self._put(name, lambda: io.BytesIO(text.encode()))

    def new_folder(self) -> str:
        """The URI of a folder for results, with nothing in it."""
        return _new_place(self._roots[0], "").uri

    def _put(self, name: str, opened: Callable[[], BinaryIO]) -> str:
        """`opened` is called for each try: boto3 may close what it was given."""
        closed = []
        for root in self._roots:
            place = _new_place(root, name)
            try:
                with opened() as content:
                    self._s3.upload_fileobj(content, *place, ExtraArgs={"Metadata": {OBJECT_MARKER: "submitted"}})
            except ClientError as error:
                if error.response["Error"]["Code"] not in _CLOSED:
                    raise
                closed.append(root)
                continue
            self._roots = [one for one in self._roots if one not in closed]
            return place.uri
        raise CliError(
            f"You may not upload to {' or '.join(closed)}.",
            "Ask for the right to s3:PutObject there; or name a file that lies in one of them already, as s3://...",
        )


def _new_place(root: str, name: str) -> S3Location:
    """Below a root, which is `bucket` or `bucket/prefix/`."""
    bucket, _, prefix = root.partition("/")
    folder = f"{FOLDER}/{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:8]}"
    return S3Location(bucket, f"{prefix}{folder}/{name}")
