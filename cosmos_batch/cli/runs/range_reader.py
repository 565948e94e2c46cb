"""A file in S3 that is read in ranges, so that its header can be read without the rest."""

import io
from typing import Any

from cosmos_batch.contract.s3 import S3Location

_BLOCK = 256 * 1024  # bytes; a header and the index of a clip of minutes fit


class RangeReader(io.RawIOBase):
    """A stream over an object. It keeps the last two blocks: demuxers look at the start and the end in turn.

    Raises OSError once `limit` bytes were fetched: an estimate is not worth a whole film.
    """

    def __init__(self, s3: Any, place: S3Location, size: int, limit: int = 32 * _BLOCK) -> None:
        self._s3 = s3
        self._place = place
        self._size = size
        self._left = limit
        self._position = 0
        self._blocks: dict[int, bytes] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        number, offset = divmod(self._position, _BLOCK)
        if self._position >= self._size:
            return 0
        part = self._block(number)[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            if self._left <= 0:
                raise OSError("the header is too long")
            start = number * _BLOCK
            span = f"bytes={start}-{min(start + _BLOCK, self._size) - 1}"
            block = self._s3.get_object(Bucket=self._place.bucket, Key=self._place.key, Range=span)["Body"].read()
            self._left -= len(block)
            if len(self._blocks) > 1:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[number] = block
        return self._blocks[number]
