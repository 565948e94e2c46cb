"""Reading all documents of a folder into the index, while the page already shows the first ones."""

import time
from collections.abc import Iterator
from threading import Event, Thread

from cosmos_batch.console.documents import Document, read_document
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.locating import MediaLocator
from cosmos_batch.console.records import State
from cosmos_batch.console.scope import Scope

_BATCH = 500  # documents that are added together
_BATCH_SECONDS = 0.3  # after which those are added that were read


class Scan:
    """The reading of a folder, in a thread of its own."""

    def __init__(self, scope: Scope, index: DocumentIndex) -> None:
        self._scope = scope
        self._index = index
        self._locator = MediaLocator()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="scan", daemon=True)
        self._found = self._looked_at = 0
        self._done = False
        self._problem: str | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is read."""
        self._thread.join()

    def stop(self) -> None:
        """End the reading."""
        self._stopped.set()
        self._thread.join()

    def state(self) -> State:
        """Return how far reading has come, and what the documents read so far can be filtered by."""
        done = self._done  # asked first: whatever is counted below is then complete
        failed = self._index.failed()
        return State(
            title=self._scope.title,
            found=self._found,
            looked_at=self._looked_at,
            documents=self._index.count,
            done=done,
            problem=self._problem,
            succeeded=self._index.count - failed,
            failed=failed,
            error_codes=self._index.facets("error_code"),
            models=self._index.facets("model"),
            labels=self._index.labels(),
        )

    def _run(self) -> None:
        try:
            paths = list(self._json_files())
            self._found = len(paths)
            batch: list[tuple[str, Document, list[str | None]]] = []
            added = time.monotonic()
            for document in self._documents(paths):
                batch.append(document)
                if len(batch) >= _BATCH or time.monotonic() - added > _BATCH_SECONDS:
                    self._index.add(batch)
                    batch, added = [], time.monotonic()
            self._index.add(batch)
        except Exception as error:
            self._problem = f"The folder could not be read to its end: {error}"
            raise
        finally:
            self._done = True

    def _json_files(self) -> Iterator[str]:
        """Yield the JSON files of the folder. All media files are known when the last one was asked for."""
        for path in self._scope.walk():
            if self._stopped.is_set():
                return
            self._locator.add(path)
            if path.lower().endswith(".json"):
                yield path

    def _documents(self, paths: list[str]) -> Iterator[tuple[str, Document, list[str | None]]]:
        for path in paths:
            if self._stopped.is_set():
                return
            self._looked_at += 1
            document = self._read(path)
            if document is None:
                continue
            media = [self._locator.find(one.name, path, one.uri) for one in document.media]
            if self._scope.only in (None, path, *media):
                yield path, document, media

    def _read(self, path: str) -> Document | None:
        """Return the document in a file; None for other JSON, and for files that cannot be read."""
        file = self._scope.file(path)
        try:
            return read_document(file) if file is not None else None
        except OSError:
            return None
