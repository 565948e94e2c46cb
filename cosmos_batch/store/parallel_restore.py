"""Restores the files of a backup: fetches many ranges at once, and hashes the files while they are written.

One connection to S3 transfers 80 to 100 MB/s. So parts of several files are fetched in parallel. The parts of one file
are written in order, because SHA-256 can only be computed in order. The number of parts in memory is bounded.
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
_TRIES_OF_A_FILE = 2  # a second transfer helps if the first was damaged on the way, but not if the object in S3 is


class _Stopped(Exception):  # noqa: N818 - the error to report is that of another file
    """The restore was stopped because another file has failed."""


@dataclass(frozen=True)
class BackupLocation:
    """The bucket and prefix at which the files of a backup are."""

    s3: "BaseClient"
    bucket: str
    prefix: str


def restore_files(source: BackupLocation, files: Sequence[ModelFile], directory: Path) -> None:
    """Copy `files` from the backup in S3 to the empty `directory`, and check the hashes that are known; blocks.

    Raises
    ------
    IncompleteCopyError
        Files are missing or have another size or hash, which a retry would not change.
    One of `FAULTS`
        S3 refused, or nothing could be fetched for as long as `RetryBudget` allows.
    OSError
        The disk failed.
    """
    with (
        ThreadPoolExecutor(CONNECTIONS, "restore-fetch") as connections,
        ThreadPoolExecutor(FILES_AT_ONCE, "restore-write") as writers,
    ):
        restore = _Restore(source, directory, connections)
        # Largest first: a large file that begins last would be fetched alone at the end.
        ordered = sorted(files, key=lambda file: file.size, reverse=True)
        writing = [writers.submit(restore.write_file, file) for file in ordered]
        try:
            wait(writing, return_when=FIRST_EXCEPTION)
        finally:
            restore.stop()
        for file_written in writing:
            _raise_unless_stopped(file_written)


class _Restore:
    """The state that the threads of one restore share."""

    def __init__(self, source: BackupLocation, directory: Path, connections: ThreadPoolExecutor) -> None:
        self._source = source
        self._directory = directory
        self._connections = connections
        self._retries = RetryBudget()
        self._room = threading.BoundedSemaphore(PARTS_IN_MEMORY)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make all threads end soon. Has no effect once they are done."""
        self._stopped.set()

    def write_file(self, file: ModelFile) -> None:
        """Fetch one file and compare its hash. Raises IncompleteCopyError if it is wrong after two transfers."""
        for attempt in range(_TRIES_OF_A_FILE):
            digest = self._write(file)
            if file.sha256 in (None, digest):
                return
            logger.warning("%s arrived with another SHA-256 than its manifest says, try %d", file.name, attempt + 1)
        raise IncompleteCopyError(f"{file.name} has other bytes than its SHA-256 says")

    def _write(self, file: ModelFile) -> str:
        """Fetch and write one file, and return its SHA-256."""
        path = self._directory / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        # `closing`: if writing fails, parts must release their room at once, for which other files wait.
        with path.open("wb") as target, closing(self._parts(file)) as parts:
            for part in parts:
                digest.update(part)
                target.write(part)
            target.flush()
            os.fsync(target.fileno())  # a network file system reports a full disk only here or on close
        return digest.hexdigest()

    def _parts(self, file: ModelFile) -> Generator[bytes, None, None]:
        """Yield the parts of a file in order, while the following parts are being fetched."""
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
        """Start to fetch as many more parts as there is room for. Returns False when all parts have been yielded."""
        # A file without parts under way waits for room. One with parts does not wait: writing them makes room.
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
            response = self._source.s3.get_object(
                Bucket=self._source.bucket, Key=self._source.prefix + file.name, Range=f"bytes={offset}-{last}"
            )
        except ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                raise IncompleteCopyError(f"{file.name} is missing or cut short") from error
            raise
        if response["ContentRange"] != f"bytes {offset}-{last}/{file.size}":
            raise IncompleteCopyError(f"{file.name} has another size: {response['ContentRange']} of {file.size}")
        body: bytes = response["Body"].read()
        return body


def _raise_unless_stopped(writing: "Future[None]") -> None:
    try:
        writing.result()
    except _Stopped:
        return
