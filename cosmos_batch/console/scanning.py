"""Reading a collection into the index, while the page already shows the first documents."""

import logging
import time
from threading import Event, Thread

from cosmos_batch.console.collection import Collection, Entry, Progress, Removed
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.records import State

_BATCH = 500  # documents that are added together
_BATCH_SECONDS = 0.3  # after which those are added that were read
_LOOK_SECONDS = 2.0  # between two looks at a collection that grows
_POLLED_SECONDS = 15.0  # after the last poll of a page, a collection that grows is not looked at any more
_RETRY_SECONDS = 5.0  # after which a collection that could not be read is read again, twice as long after each failure
_RETRY_SECONDS_LIMIT = 300.0

_log = logging.getLogger(__name__)


class Scan:
    """The reading of a collection, in a thread of its own."""

    def __init__(self, collection: Collection, index: DocumentIndex) -> None:
        self._collection = collection
        self._index = index
        self._progress = Progress()
        self._stopped = Event()
        self._first = Event()
        self._polled = Event()
        self._polled_at = time.monotonic()
        self._thread = Thread(target=self._run, name="scan", daemon=True)
        self._paths: set[str] = set()  # of the documents of a collection that does not grow
        self.problem: str | None = None
        """Why the collection could not be read to its end the last time; it is tried again."""

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until everything is read that there is, or until something could not be read."""
        self._first.wait()

    def stop(self) -> None:
        """End the reading."""
        self._stopped.set()
        self._polled.set()
        self._thread.join()

    def state(self) -> State:
        """Return how far reading has come, and what the documents read so far can be filtered by."""
        self._polled_at = time.monotonic()
        self._polled.set()
        done, problem = self._first.is_set(), self.problem  # read first: what is counted below is then complete
        failed = self._index.failed()
        return State(
            title=self._collection.title,
            json_files=self._progress.json_files,
            read_files=self._progress.read_files,
            documents=self._index.count,
            version=self._index.version,
            done=done,
            grows=self._collection.grows or problem is not None,
            problem=problem,
            succeeded=self._index.count - failed,
            failed=failed,
            error_codes=self._index.facets("error_code"),
            models=self._index.facets("model"),
            labels=self._index.labels(),
            failures=self._index.failures(),
            scored=self._index.has("score IS NOT NULL"),
            is_local=self._collection.is_local,
            varied=self._index.has("variant != ''"),
        )

    def _run(self) -> None:
        retry = _RETRY_SECONDS
        while True:
            succeeded = self._try_to_read()
            self._first.set()
            if self._stopped.is_set() or (succeeded and not self._collection.grows):
                return
            self._stopped.wait(_LOOK_SECONDS if succeeded else retry)
            retry = _RETRY_SECONDS if succeeded else min(2 * retry, _RETRY_SECONDS_LIMIT)
            self._wait_for_a_page()

    def _try_to_read(self) -> bool:
        """Read the changes. Returns False, and keeps why, where that fails, as it does while there is no network."""
        try:
            self._read_changes()
        except Exception as error:
            problem = f"{self._collection.title} could not be read to its end: {error}"
            if problem != self.problem:
                _log.exception(problem)
            self.problem = problem
            return False
        self.problem = None
        return True

    def _wait_for_a_page(self) -> None:
        """Wait while no page shows the collection, so that S3 is not called in vain."""
        while True:
            self._polled.clear()  # before both conditions are checked: what happens meanwhile sets it again
            if self._stopped.is_set() or time.monotonic() <= self._polled_at + _POLLED_SECONDS:
                return
            self._polled.wait()

    def _read_changes(self) -> None:
        """Add what has changed. What was read before a failure is added too: a collection that grows has it no more."""
        batch: list[Entry] = []
        added = time.monotonic()
        try:
            for change in self._collection.changes(self._progress, self._stopped):
                if isinstance(change, Removed):
                    self._index.add(batch)
                    batch = []
                    self._index.remove(change.prefix)
                elif self._is_new(change):
                    batch.append(change)
                if len(batch) >= _BATCH or time.monotonic() - added > _BATCH_SECONDS:
                    self._index.add(batch)
                    batch, added = [], time.monotonic()
        finally:
            self._index.add(batch)

    def _is_new(self, entry: Entry) -> bool:
        """Return False for what was read before a failure: a collection that does not grow yields it once more."""
        if self._collection.grows:
            return True
        is_new = entry.path not in self._paths
        self._paths.add(entry.path)
        return is_new
