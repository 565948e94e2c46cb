"""The documents below an S3 prefix as a collection of the console, beside the videos and images that lie there."""

from collections.abc import Iterator
from threading import Event
from typing import Any

from cosmos_batch.cli.console.refusals import refusals
from cosmos_batch.cli.console.s3_media import S3MediaFinder
from cosmos_batch.cli.errors import is_gone
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.s3_inputs import listed
from cosmos_batch.console.collection import Entry, MediaFile, Progress
from cosmos_batch.console.documents import SIZE_LIMIT, Document, NamedMedia, parse_document
from cosmos_batch.console.locating import MediaLocator
from cosmos_batch.contract.s3 import S3Location

_READERS = 8  # threads that read documents


class PrefixCollection:
    """The documents below a prefix, which is listed once. Paths are keys without the prefix's folder."""

    grows = False
    is_local = False  # documents tell no cost

    def __init__(self, s3: Any, prefix: S3Location) -> None:
        self._s3 = s3
        self._prefix = prefix
        self._folder = prefix.key[: prefix.key.rfind("/") + 1]
        self._locator = MediaLocator()
        self._finder = S3MediaFinder(s3)

    @property
    def title(self) -> str:
        """Return the last name of the prefix; not that of the bucket, because the title is written into exports."""
        return self._prefix.key.rstrip("/").rpartition("/")[2] or "bucket"

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry]:
        paths = list(self._json_files(stopped))
        progress.json_files, progress.read_files = len(paths), 0
        for path, document in in_parallel(lambda path: (path, self.document(path)), paths, _READERS):
            if stopped.is_set():
                return
            progress.read_files += 1
            if document is not None:
                yield Entry(path, document, [self.place(one, path) for one in document.media])

    @refusals()
    def document(self, path: str) -> Document | None:
        """Return the document in an object; None for other JSON, and for an object that is gone or too large."""
        from botocore.exceptions import ClientError

        try:
            answer = self._s3.get_object(Bucket=self._prefix.bucket, Key=self._folder + path)
        except ClientError as error:
            if not is_gone(error):
                raise
            return None
        text: bytes = answer["Body"].read(SIZE_LIMIT + 1)
        return parse_document(text) if len(text) <= SIZE_LIMIT else None

    def place(self, named: NamedMedia, path: str) -> str | None:
        return self._locator.find(named.name, path, named.uri)

    def media(self, place: str) -> MediaFile | None:
        return self._finder.find(S3Location(self._prefix.bucket, self._folder + place))

    def _json_files(self, stopped: Event) -> Iterator[str]:
        """Yield the paths of JSON objects. All media files are known when the last one was asked for."""
        with refusals():
            for content in listed(self._s3, self._prefix):
                if stopped.is_set():
                    return
                path = str(content["Key"]).removeprefix(self._folder)
                self._locator.add(path)
                if path.lower().endswith(".json"):
                    yield path
