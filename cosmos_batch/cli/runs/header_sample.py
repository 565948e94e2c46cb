"""Draw a sample of a run's inputs while they are listed, then read the headers of its files by range requests."""

import io
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import S3Location, parse_uri

if TYPE_CHECKING:
    from cosmos_batch.media.headers import Header

SAMPLE_SIZE = 200
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


class Sampled(NamedTuple):
    """An input of the sample and its header; None where there is no input, or where it cannot be read."""

    item: RunItem
    header: "Header | None"


class Sample:
    """A random sample of a stream of unknown length, each of whose items is equally likely in it (algorithm R).

    The same inputs always make the same sample.
    """

    def __init__(self, size: int = SAMPLE_SIZE) -> None:
        self._size = size
        self._random = random.Random(0)
        self._seen = 0
        self.items: list[RunItem] = []

    def add(self, item: RunItem) -> None:
        """Look at an item, and keep it in place of another or not."""
        self._seen += 1
        if len(self.items) < self._size:
            self.items.append(item)
            return
        place = self._random.randrange(self._seen)
        if place < self._size:
            self.items[place] = item


def probe_sample(s3: Any, items: Sequence[RunItem], local_path: Callable[[str], Path | None]) -> list[Sampled]:
    """Read the headers of a sample's files, in parallel. `local_path` returns where a URI's file is on this machine."""
    from botocore.exceptions import BotoCoreError, ClientError

    from cosmos_batch.media.headers import read_header

    def probe(item: RunItem) -> Sampled:
        if item.input is None:
            return Sampled(item, None)
        try:
            path = local_path(item.input)
            if path is not None:
                with path.open("rb") as file:
                    return Sampled(item, read_header(file))
            reader = RangeReader(s3, parse_uri(item.input), item.size or 0)
            return Sampled(item, read_header(io.BufferedReader(reader)))
        except (Failure, OSError, ClientError, BotoCoreError):
            return Sampled(item, None)

    return list(in_parallel(probe, items))
