"""Reading a collection that cannot be read to its end at first."""

import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from cosmos_batch.console import scanning
from cosmos_batch.console.collection import Entry, Progress
from cosmos_batch.console.folder import FolderCollection
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.scanning import Scan
from cosmos_batch.console.scope import Scope
from tests.support.console_documents import write_answer


class FailingOnce(FolderCollection):
    """A folder of which the first reading fails after one document. The second begins once `go_on` is set.

    One that grows yields no document twice, as a run does; a third reading of it sets `is_read`.
    """

    def __init__(self, folder: Path, grows: bool) -> None:
        super().__init__(Scope.of(folder))
        self.grows = grows
        self.go_on, self.is_read = Event(), Event()
        self._readings = 0

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry]:
        self._readings += 1
        entries = super().changes(progress, stopped)
        if self._readings == 1:
            yield next(entries)
            raise OSError("no network")
        self.go_on.wait()
        if self._readings == 2:
            if self.grows:
                next(entries)
            yield from entries
        else:
            self.is_read.set()


def wait_for_the_end_of_reading() -> None:
    """Wait until the thread ends that reads a collection which does not grow."""
    for thread in threading.enumerate():
        if thread.name == "scan":
            thread.join()


@pytest.mark.parametrize("grows", [False, True])
def test_a_collection_that_could_not_be_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grows: bool
) -> None:
    """One of two documents is read before the failure: it is shown then, and both are after the next reading, once."""
    for setting in ("_RETRY_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(scanning, setting, 0.0)
    for name in ("a.json", "b.json"):
        write_answer(tmp_path / "clips" / name)
    collection = FailingOnce(tmp_path / "clips", grows)
    index = DocumentIndex(tmp_path / "index.sqlite", "")
    scan = Scan(collection, index)
    scan.start()
    scan.wait()
    state = scan.state()
    assert (state.documents, state.problem) == (1, "clips could not be read to its end: no network")
    assert state.grows, "the page asks again"
    collection.go_on.set()
    if grows:
        collection.is_read.wait()
    else:
        wait_for_the_end_of_reading()
    state = scan.state()
    assert (state.documents, state.problem, state.grows) == (2, None, grows)
    scan.stop()
    index.close()
