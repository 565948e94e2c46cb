"""Videos and images in S3 as the console shows them: only what is looked at is fetched."""

import io
import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from cosmos_batch.cli.console.refusals import refusals
from cosmos_batch.cli.errors import is_gone
from cosmos_batch.cli.runs.header_sample import RangeReader
from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import S3Location

_BLOCK = 1 << 20  # bytes
_READ_LIMIT = 256 << 20  # bytes that are fetched for a header and a picture
_KEPT_LIMIT = 8 << 30  # bytes of files that were needed whole
_HEAD_SECONDS = 60.0  # a HEAD result is used this long, then asked again
_HEADS_KEPT = 10_000
WHOLE_LIMIT = 4 << 30  # bytes of a file that is converted, or whose frames are shown


class _MediaReader(RangeReader):
    """A stream over a media file, whose errors the page shows."""

    def readinto(self, buffer: Any) -> int:
        with refusals():
            return super().readinto(buffer)


@dataclass(frozen=True)
class S3Media:
    """A media file in S3. `kept` has those that were needed whole."""

    s3: Any
    location: S3Location
    etag: str
    size: int
    kept: KeptFiles

    @property
    def name(self) -> str:
        return PurePosixPath(self.location.key).name

    @property
    def key(self) -> str:
        return f"{self.location.uri}\0{self.etag}"

    def open(self) -> BinaryIO:
        return io.BufferedReader(_MediaReader(self.s3, self.location, self.size, _READ_LIMIT))

    @refusals()
    def part(self, start: int, end: int) -> Iterator[bytes]:
        """Return the blocks of a part, which was asked for: what S3 refuses is known before an answer begins."""
        body = self.s3.get_object(
            Bucket=self.location.bucket, Key=self.location.key, Range=f"bytes={start}-{end - 1}", IfMatch=self.etag
        )["Body"]
        return _blocks(body)

    @contextmanager
    def whole(self) -> Iterator[Path]:
        if self.size > WHOLE_LIMIT:
            raise Failure(
                "InvalidInput",
                f"{self.name} has {self.size / 1e9:.1f} GB, too many to be converted or cut into frames here.",
                "Download it, and open it with another program.",
            )
        yield self.kept.get(self.key, self._download)

    @refusals()
    def _download(self, target: Path) -> None:
        self.s3.download_file(*self.location, str(target))


def _blocks(body: Any) -> Iterator[bytes]:
    with body:
        yield from body.iter_chunks(_BLOCK)


class S3MediaFinder:
    """Finds media files in S3, and keeps those that are needed whole in a temporary folder of bounded size."""

    def __init__(self, s3: Any) -> None:
        self._s3 = s3
        self._folder = tempfile.TemporaryDirectory(prefix="cosmos-batch-media-")
        self._kept = KeptFiles(Path(self._folder.name) / "whole", _KEPT_LIMIT)
        self._heads: dict[S3Location, tuple[float, S3Media | None]] = {}

    def find(self, location: S3Location) -> S3Media | None:
        """Return a file in S3, or None where it is gone or may not be read. The answer is kept for some time."""
        looked_at, file = self._heads.get(location, (-math.inf, None))
        if time.monotonic() > looked_at + _HEAD_SECONDS:
            if len(self._heads) > _HEADS_KEPT:
                self._heads.clear()
            file = self._look(location)
            self._heads[location] = (time.monotonic(), file)
        return file

    @refusals()
    def _look(self, location: S3Location) -> S3Media | None:
        from botocore.exceptions import ClientError

        try:
            head = self._s3.head_object(Bucket=location.bucket, Key=location.key)
        except ClientError as error:
            if not is_gone(error):
                raise
            return None
        return S3Media(self._s3, location, head["ETag"], head["ContentLength"], self._kept)


MediaFinder = Callable[[S3Location], MediaFile | None]
