"""Files of a backup, fetched in many ranges at once, and hashed while they are written.

S3 gives one connection 80 to 100 MB/s. So the parts of several files are fetched side by side; the parts of one file
are written in their order, because SHA-256 can only be computed in order. A bounded number of parts is in memory.
"""

import hashlib
import logging
import os
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from cosmos_batch.store.manifest import IncompleteCopyError, ModelFile
from cosmos_batch.store.s3_retries import RetryBudget

if TYPE_CHECKING:
    from botocore.client import BaseClient

logger = logging.getLogger(__name__)

PART_BYTES = 8 << 20
CONNECTIONS = 32
FILES_AT_ONCE = 8
PARTS_IN_MEMORY = 40
_GONE = {"404", "NoSuchKey", "416", "InvalidRange"}
_TRIES_OF_A_FILE = 2  # bytes that were spoilt on their way are right the second time; spoilt in S3, they stay so


class _Stopped(Exception):  # noqa: N818 - another file failed, which is the error to tell
    """The restore has failed elsewhere."""


@dataclass(frozen=True)
class BackupLocation:
    """Where the files lie."""

    s3: "BaseClient"
    bucket: str
    prefix: str


def restore_files(source: BackupLocation, files: Sequence[ModelFile], directory: Path) -> None:
    """Copy `files` into the empty `directory`, with the hashes that are known; blocks.

    Raises
    ------
    IncompleteCopyError
        If files are gone, or have another size or hash: trying again would change nothing.
    One of `FAULTS`
        If S3 refuses, or nothing could be fetched for as long as `RetryBudget` lasts.
    OSError
        What the disk says.
    """
    with (
        ThreadPoolExecutor(CONNECTIONS, "restore-fetch") as connections,
        ThreadPoolExecutor(FILES_AT_ONCE, "restore-write") as writers,
    ):
        restore = _Restore(source, directory, connections)
        # The largest first: a large file that begins last would end alone.
        ordered = sorted(files, key=lambda file: file.size, reverse=True)
        writing = [writers.submit(restore.write_file, file) for file in ordered]
        try:
            wait(writing, return_when=FIRST_EXCEPTION)
        finally:
            restore.stop()
        for each in writing:
            _raise_but_stopped(each)


class _Restore:
    """What the threads of one restore share."""

    def __init__(self, source: BackupLocation, directory: Path, connections: ThreadPoolExecutor) -> None:
        self._source = source
        self._directory = directory
        self._connections = connections
        self._retries = RetryBudget()
        self._room = threading.BoundedSemaphore(PARTS_IN_MEMORY)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Have all threads end soon. Without effect where they are done."""
        self._stopped.set()

    def write_file(self, file: ModelFile) -> None:
        """Fetch one file, and compare its hash."""
        for attempt in range(_TRIES_OF_A_FILE):
            digest = self._write(file)
            if file.sha256 in (None, digest):
                return
            logger.warning("%s arrived with another SHA-256 than its manifest says, try %d", file.name, attempt + 1)
        raise IncompleteCopyError(f"{file.name} has other bytes than its SHA-256 says")

    def _write(self, file: ModelFile) -> str:
        """Returns the hash of what was written."""
        path = self._directory / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        # Closed at once where writing fails: what it holds is the room that other files wait for.
        with path.open("wb") as target, closing(self._parts(file)) as parts:
            for part in parts:
                digest.update(part)
                target.write(part)
            target.flush()
            os.fsync(target.fileno())  # a network file system tells of a full disk here, or when nobody listens
        return digest.hexdigest()

    def _parts(self, file: ModelFile) -> Generator[bytes, None, None]:
        """The bytes of a file in their order, while the parts behind them are on their way."""
        coming: deque[Future[bytes]] = deque()
        offsets = iter(range(0, file.size, PART_BYTES))
        try:
            while self._fetch_ahead(file, offsets, coming):
                try:
                    yield coming.popleft().result()
                finally:
                    self._room.release()
        finally:
            for fetching in coming:
                fetching.cancel()
                self._room.release()

    def _fetch_ahead(self, file: ModelFile, offsets: Iterator[int], coming: "deque[Future[bytes]]") -> bool:
        """Begin with as many more parts as there is room for. False when all parts of the file have been taken."""
        # A file that has nothing on its way waits for room; one that has must write first, which makes room.
        while not self._stopped.is_set() and self._room.acquire(blocking=not coming):
            offset = next(offsets, None)
            if offset is None:
                self._room.release()
                return bool(coming)
            coming.append(self._connections.submit(self._fetch, file, offset))
        if self._stopped.is_set():
            raise _Stopped
        return True

    def _fetch(self, file: ModelFile, offset: int) -> bytes:
        return self._retries.call(lambda: self._fetch_once(file, offset))

    def _fetch_once(self, file: ModelFile, offset: int) -> bytes:
        if self._stopped.is_set():
            raise _Stopped
        last = min(offset + PART_BYTES, file.size) - 1
        try:
            answer = self._source.s3.get_object(
                Bucket=self._source.bucket, Key=self._source.prefix + file.name, Range=f"bytes={offset}-{last}"
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                raise IncompleteCopyError(f"{file.name} is missing or cut short") from error
            raise
        if answer["ContentRange"] != f"bytes {offset}-{last}/{file.size}":
            raise IncompleteCopyError(f"{file.name} has another size: {answer['ContentRange']} of {file.size}")
        body: bytes = answer["Body"].read()
        return body


def _raise_but_stopped(writing: "Future[None]") -> None:
    try:
        writing.result()
    except _Stopped:
        return
