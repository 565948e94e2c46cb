"""Copies of files at https addresses, which a manifest names: they are put into S3 when the run starts."""

import json
import tempfile
from pathlib import Path
from typing import Any

from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.messages import warn
from cosmos_batch.cli.runs.disk_buffers import LinesOnDisk
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.progress_counter import ProgressCounter
from cosmos_batch.cli.uploads import SUBMITTED
from cosmos_batch.cli.web_download import WebDownload
from cosmos_batch.contract.s3 import S3Location, parse_uri

DOWNLOADS_AT_ONCE = 8


class WebCopies:
    """Notes addresses while a manifest is read, and copies those that S3 does not have yet."""

    def __init__(self, s3: Any, download: WebDownload | None = None) -> None:
        self._s3 = s3
        self._download = download or WebDownload()
        self._addresses = LinesOnDisk()

    def __len__(self) -> int:
        """Return how many addresses were named."""
        return len(self._addresses)

    def note(self, address: str, uri: str) -> None:
        """Note an address and where its copy is to lie."""
        self._addresses.add(json.dumps([address, uri]).encode() + b"\n")

    def copy(self) -> None:
        """Copy all files, with progress. One that cannot be fetched is named, and its item fails alone."""
        if not len(self):
            return
        with ProgressCounter("addresses copied", len(self)) as counting:
            for failure in in_parallel(self._copy, map(json.loads, self._addresses), DOWNLOADS_AT_ONCE):
                counting.add()
                if failure is not None:
                    warn(str(failure))

    def close(self) -> None:
        """Delete what was kept on this machine's disk."""
        self._addresses.close()

    def _copy(self, task: tuple[str, str]) -> CliError | None:
        address, location = task[0], parse_uri(task[1])
        if self._is_there(location):
            return None
        with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
            path = Path(scratch) / "file"
            try:
                self._download.fetch(address, path)
            except CliError as failure:
                return failure
            self._s3.upload_file(str(path), *location, ExtraArgs=SUBMITTED)
        return None

    def _is_there(self, location: S3Location) -> bool:
        from botocore.exceptions import ClientError

        try:
            self._s3.head_object(Bucket=location.bucket, Key=location.key)
        except ClientError as error:
            if error.response["Error"]["Code"] in ("404", "NoSuchKey"):
                return False
            raise
        return True
