"""A run as a collection of the console: the lines of its tables, and the files in S3 that they are about."""

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from threading import Event
from typing import Any

from cosmos_batch.catalogue.formats import EXTENSIONS, extension
from cosmos_batch.cli.console.refusals import refusals
from cosmos_batch.cli.console.run_documents import document_of_line, with_whole_document
from cosmos_batch.cli.console.s3_media import MediaFinder
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import is_gone
from cosmos_batch.cli.runs.ordered_threads import in_parallel
from cosmos_batch.cli.runs.stored_run import StoredRun, stored_run
from cosmos_batch.console.collection import Entry, MediaFile, Progress, Removed
from cosmos_batch.console.documents import SIZE_LIMIT, Document, NamedMedia
from cosmos_batch.contract.run_keys import ERRORS, RESULTS
from cosmos_batch.contract.runs import ResultLine, RunRequest
from cosmos_batch.contract.s3 import allowed, parse_uri

_READERS = 4  # threads that read lines


class RunCollection:
    """The items of a run that have ended. While the run goes on, more of them come."""

    def __init__(self, deployment: Deployment, run: str, find_media: MediaFinder) -> None:
        self._deployment = deployment
        self._objects: StoredRun = stored_run(deployment, run)
        self._find_media = find_media
        self._read: dict[str, str] = {}  # the objects that were read, with their ETags

    @property
    def title(self) -> str:
        return self._objects.run

    @property
    def grows(self) -> bool:
        """Return whether a cloud has the run: one that has ended may be resumed; its shards are then written anew."""
        return self._deployment.is_alive

    @property
    def is_local(self) -> bool:
        return self._deployment.is_local

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry | Removed]:
        with refusals():
            listed = dict(self._listed())
        progress.json_files = len(listed)
        for name in [name for name, etag in self._read.items() if listed.get(name) != etag]:
            del self._read[name]
            progress.read_files -= 1
            yield Removed(f"{name}/")
        new = [name for name in listed if name not in self._read]
        for name, entries in in_parallel(lambda name: (name, self._entries(name)), new, _READERS):
            if stopped.is_set():
                return
            yield from entries
            self._read[name] = listed[name]
            progress.read_files += 1

    @refusals()
    def document(self, path: str) -> Document | None:
        name, _, number = path.rpartition("/")
        lines = self._objects.lines_of(name)
        line = next((line for place, line in enumerate(lines, start=1) if place == int(number)), None)
        if line is None:
            return None
        return with_whole_document(self._document(line), self._whole(line))

    def place(self, named: NamedMedia, path: str) -> str | None:  # noqa: ARG002 - a URI names one file for all
        """Return the URI of a file in S3 that may be shown: one in an allowed place, with the extension of media."""
        if named.uri is None or not named.uri.startswith("s3://"):
            return None
        location = parse_uri(named.uri)
        is_media = extension(location.key) in EXTENSIONS
        return named.uri if is_media and allowed(location, self._roots) else None

    def media(self, place: str) -> MediaFile | None:
        return self._find_media(parse_uri(place))

    @cached_property
    def _request(self) -> RunRequest:
        return self._objects.request()

    @cached_property
    def _started(self) -> str:
        row = self._deployment.runs.get(self._objects.run)
        return datetime.fromisoformat(row.started_at).strftime("%Y%m%d-%H%M%S") if row else ""

    @cached_property
    def _roots(self) -> list[str]:
        output = [parse_uri(self._request.output)] if self._request.output else []
        return [*self._deployment.asset_roots, *(f"{place.bucket}/{place.key}" for place in output)]

    def _listed(self) -> Iterator[tuple[str, str]]:
        for folder in (RESULTS, ERRORS):
            yield from self._objects.etags(folder)

    @refusals()
    def _entries(self, name: str) -> list[Entry]:
        documents = enumerate(map(self._document, self._objects.lines_of(name)), start=1)
        return [self._entry(f"{name}/{number}", document) for number, document in documents]

    def _entry(self, path: str, document: Document) -> Entry:
        return Entry(path, document, [self.place(one, path) for one in document.media])

    def _document(self, line: ResultLine) -> Document:
        return document_of_line(line, self._request, self._started)

    def _whole(self, line: ResultLine) -> bytes | None:
        """Return the document of an item's answer as it lies in S3; None if there is none, or not any more."""
        from botocore.exceptions import ClientError

        if line.document is None:
            return None
        bucket, key = parse_uri(line.document)
        s3: Any = self._deployment.clients("s3")
        try:
            answer = s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if not is_gone(error):
                raise
            return None
        text: bytes = answer["Body"].read(SIZE_LIMIT + 1)
        return text if len(text) <= SIZE_LIMIT else None
