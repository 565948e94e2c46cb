"""Reading a collection that cannot be read to its end at first."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from cosmos_batch.console import scanning
from cosmos_batch.console.collection import Entry, MediaFile, Progress
from cosmos_batch.console.documents import Document, NamedMedia, read_document
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.scanning import Scan
from tests.support.console_documents import write_answer


class FailingOnce:
    """A collection of two documents. The first reading fails after one of them, and the second waits for `go_on`."""

    title = "clips"

    def __init__(self, document: Document, grows: bool) -> None:
        self.grows = grows
        self.go_on = Event()
        self._document = document
        self._readings = 0

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry]:
        self._readings += 1
        if self._readings == 1:
            yield Entry("a.json", self._document, [])
            raise OSError("no network")
        self.go_on.wait()
        if self._readings == 2:
            if not self.grows:
                yield Entry("a.json", self._document, [])
            yield Entry("b.json", self._document, [])

    def document(self, path: str) -> Document | None:
        raise NotImplementedError

    def place(self, named: NamedMedia, path: str) -> str | None:
        raise NotImplementedError

    def media(self, place: str) -> MediaFile | None:
        raise NotImplementedError


@pytest.mark.parametrize("grows", [False, True])
def test_a_collection_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    """The documents before the failure are shown at once and stay; reading again yields only those after them."""
    monkeypatch.setattr(scanning, "_RETRY_SECONDS", 0.0)
    document = read_document(write_answer(tmp_path / "a.json"))
    assert document is not None
    collection, index = FailingOnce(document, grows), DocumentIndex(tmp_path / "index.sqlite", "")
    scan = Scan(collection, index)
    scan.start()
    scan.wait()
    state = scan.state()
    assert (state.documents, state.problem) == (1, "clips could not be read to its end: no network")
    assert state.grows, "the page asks again"
    collection.go_on.set()
    while scan.state().problem is not None:
        pass
    assert (scan.state().documents, scan.state().grows) == (2, grows)
    scan.stop()
    index.close()
