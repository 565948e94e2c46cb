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
from cosmos_batch.cli.web_download import UNKNOWN, WebDownload, WebVersion
from cosmos_batch.contract.s3 import S3Location, parse_uri

DOWNLOADS_AT_ONCE = 8
_ETAG, _CHANGED = "web-etag", "web-last-modified"  # metadata of a copy


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
        """Copy all files, with progress. One that cannot be fetched is named, and its item fails alone.

        Of a file that was copied before, its host is asked whether it has changed since, and then it is copied again.
        """
        if not len(self):
            return
        tasks, give_up = map(json.loads, self._addresses), self._download.given_up.set
        with ProgressCounter("addresses copied", len(self)) as counting:
            for failure in in_parallel(self._copy, tasks, DOWNLOADS_AT_ONCE, give_up):
                counting.add()
                if failure is not None:
                    warn(str(failure))

    def close(self) -> None:
        """Delete the temporary file with the addresses."""
        self._addresses.close()

    def _copy(self, task: tuple[str, str]) -> CliError | None:
        address, location = task[0], parse_uri(task[1])
        known = self._known_version(location)
        if known is not None and not known.condition:
            return None  # the host has not said how a change could be noticed
        with tempfile.TemporaryDirectory(prefix="cosmos-batch-") as scratch:
            path = Path(scratch) / "file"
            try:
                version = self._download.fetch(address, path, known or UNKNOWN)
            except CliError as failure:
                kept = CliError(f"{failure.message} Its earlier copy is used.", failure.remedy)
                return failure if known is None else kept
            if version is not None:
                metadata = SUBMITTED["Metadata"] | {_ETAG: version.etag, _CHANGED: version.changed}
                self._s3.upload_file(str(path), *location, ExtraArgs={"Metadata": metadata})
        return None

    def _known_version(self, location: S3Location) -> WebVersion | None:
        """Return the version of the file of which there is a copy; None where there is no copy."""
        from botocore.exceptions import ClientError

        try:
            metadata = self._s3.head_object(Bucket=location.bucket, Key=location.key)["Metadata"]
        except ClientError as error:
            if error.response["Error"]["Code"] in ("404", "NoSuchKey"):
                return None
            raise
        return WebVersion(metadata.get(_ETAG, ""), metadata.get(_CHANGED, ""))
