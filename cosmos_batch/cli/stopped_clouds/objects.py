"""Copies of S3 objects in a folder, which commands read with the calls of an S3 client."""

import hashlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.contract.s3 import S3Location, parse_uri

_NEVER_CHANGED = "kept"  # the ETag of every kept object


class NoSuchKey(ClientError):  # type: ignore[misc]  # noqa: N818 - boto3's name
    """The error with which S3 answers for an object that does not exist."""

    def __init__(self, uri: str) -> None:
        super().__init__({"Error": {"Code": "NoSuchKey", "Message": f"{uri} was not kept."}}, "GetObject")


@dataclass(frozen=True)
class KeptObjects:
    """A folder with copies of objects. It has those methods of an S3 client by which commands read.

    `listed` are the keys that can be listed.
    """

    folder: Path
    listed: tuple[str, ...] = ()

    class exceptions:  # noqa: N801 - boto3's name
        NoSuchKey = NoSuchKey

    def keep(self, s3: Any, uris: Iterable[str], missing_ok: bool = False) -> None:
        """Download objects into the folder. With `missing_ok`, those that are gone are left out."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for _ in in_parallel(lambda uri: self._download(s3, uri, missing_ok), uris):
            pass

    def file(self, location: S3Location) -> Path | None:
        """Return the file of a kept object, or None where it was not kept."""
        path = self._path(location.uri)
        return path if path.is_file() else None

    def get_object(self, Bucket: str, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Open a kept object. All of it is returned, also where a range is asked for."""
        path = self._existing(Bucket, Key)
        return {"Body": StreamingBody(path.open("rb"), path.stat().st_size)}

    def download_file(self, bucket: str, key: str, path: str, **_: object) -> None:
        """Copy a kept object to a path. What jobs have written has one version."""
        shutil.copyfile(self._existing(bucket, key), path)

    def get_paginator(self, _: str) -> "KeptObjects":
        """Return the paginator of list_objects_v2, the only one that is asked for."""
        return self

    def paginate(self, Prefix: str, **_: object) -> Iterator[dict[str, Any]]:  # noqa: N803 - boto3's name
        """Yield one page with the listed keys that have a prefix."""
        yield {"Contents": [{"Key": key, "ETag": _NEVER_CHANGED} for key in self.listed if key.startswith(Prefix)]}

    def _download(self, s3: Any, uri: str, missing_ok: bool) -> None:
        try:
            s3.download_file(*parse_uri(uri), str(self._path(uri)))
        except ClientError as error:
            if not missing_ok or error.response["Error"]["Code"] != "404":
                raise

    def _existing(self, bucket: str, key: str) -> Path:
        location = S3Location(bucket, key)
        path = self.file(location)
        if path is None:
            raise NoSuchKey(location.uri)
        return path

    def _path(self, uri: str) -> Path:
        # A key may be longer than the name of a file, and have any character.
        return self.folder / hashlib.sha256(uri.encode()).hexdigest()
