"""Reading a collection into the index, while the page already shows the first documents."""

import time
from threading import Event, Thread

from cosmos_batch.console.collection import Collection, Entry, Progress, Removed
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.records import State

_BATCH = 500  # documents that are added together
_BATCH_SECONDS = 0.3  # after which those are added that were read
_LOOK_SECONDS = 2.0  # between two looks at a collection that grows
_ASKED_SECONDS = 15.0  # after a page has asked, the collection is looked at again


class Scan:
    """The reading of a collection, in a thread of its own."""

    def __init__(self, collection: Collection, index: DocumentIndex) -> None:
        self._collection = collection
        self._index = index
        self._progress = Progress()
        self._stopped = Event()
        self._first = Event()
        self._asked = Event()
        self._asked_at = time.monotonic()
        self._thread = Thread(target=self._run, name="scan", daemon=True)
        self._problem: str | None = None

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is read that there is."""
        self._first.wait()

    def stop(self) -> None:
        """End the reading."""
        self._stopped.set()
        self._asked.set()
        self._thread.join()

    def state(self) -> State:
        """Return how far reading has come, and what the documents read so far can be filtered by."""
        self._asked_at = time.monotonic()
        self._asked.set()
        done = self._first.is_set()  # asked first: whatever is counted below is then complete
        failed = self._index.failed()
        return State(
            title=self._collection.title,
            found=self._progress.found,
            looked_at=self._progress.looked_at,
            documents=self._index.count,
            version=self._index.version,
            done=done,
            grows=self._collection.grows,
            problem=self._problem,
            succeeded=self._index.count - failed,
            failed=failed,
            error_codes=self._index.facets("error_code"),
            models=self._index.facets("model"),
            labels=self._index.labels(),
            failures=self._index.failures(),
            scored=self._index.has("score IS NOT NULL"),
            varied=self._index.has("variant != ''"),
        )

    def _run(self) -> None:
        try:
            self._read_changes()
            self._first.set()
            while self._collection.grows and not self._stopped.is_set():
                self._stopped.wait(_LOOK_SECONDS)
                self._wait_for_a_page()
                self._read_changes()
        except Exception as error:
            self._problem = f"{self._collection.title} could not be read to its end: {error}"
            raise
        finally:
            self._first.set()

    def _wait_for_a_page(self) -> None:
        """Wait while no page looks at the collection, so that nothing is asked of S3 for nobody."""
        while time.monotonic() > self._asked_at + _ASKED_SECONDS and not self._stopped.is_set():
            self._asked.clear()
            self._asked.wait()

    def _read_changes(self) -> None:
        batch: list[Entry] = []
        added = time.monotonic()
        for change in self._collection.changes(self._progress, self._stopped):
            if isinstance(change, Removed):
                self._index.add(batch)
                self._index.remove(change.prefix)
                batch = []
                continue
            batch.append(change)
            if len(batch) >= _BATCH or time.monotonic() - added > _BATCH_SECONDS:
                self._index.add(batch)
                batch, added = [], time.monotonic()
        self._index.add(batch)
