"""Find out the sizes of images in S3, which boxes in pixels need."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from cosmos_batch.catalogue.formats import extension
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.media import upright_size

_HEAD_BYTES = 256 * 1024  # nearly every image has its header within these
_MISSING = ("NoSuchKey", "NoSuchVersion", "404", "AccessDenied", "403", "InvalidRange")


@dataclass(frozen=True)
class ImageSizes:
    """Measures images as they are displayed, which is how the model saw them."""

    s3: Any

    def measure(self, uri: str) -> tuple[int, int] | None:
        """Return width and height in pixels, or None where the image is gone or cannot be read."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"image{extension(parse_uri(uri).key)}"
            try:
                return self._size_of(uri, path, f"bytes=0-{_HEAD_BYTES - 1}") or self._size_of(uri, path, "bytes=0-")
            except ClientError as error:
                if error.response["Error"]["Code"] not in _MISSING:
                    raise
                return None

    def _size_of(self, uri: str, path: Path, part: str) -> tuple[int, int] | None:
        """Download a part of an image and return its size; None where the part does not suffice."""
        bucket, key = parse_uri(uri)
        with path.open("wb") as file:
            body = self.s3.get_object(Bucket=bucket, Key=key, Range=part)["Body"]
            for chunk in body.iter_chunks(1 << 20):
                file.write(chunk)
        try:
            return upright_size(path)
        except (Failure, OSError):
            return None
