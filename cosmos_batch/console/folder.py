"""A folder of this machine, or one document or media file in it, as a collection."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from cosmos_batch.console.collection import Entry, Progress
from cosmos_batch.console.documents import Document, NamedMedia, read_document
from cosmos_batch.console.locating import MediaLocator
from cosmos_batch.console.scope import Scope

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True)
class LocalMedia:
    """A media file of this machine. `name` is the one to show, which is not that of a kept copy's file."""

    path: Path
    name: str

    @property
    def key(self) -> str:
        status = self.path.stat()
        return f"{self.path}\0{status.st_mtime_ns}\0{status.st_size}"

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    def open(self) -> Path:
        return self.path

    def part(self, start: int, end: int) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(start)
            while start < end and (block := file.read(min(_BLOCK, end - start))):
                start += len(block)
                yield block

    @contextmanager
    def whole(self) -> Iterator[Path]:
        yield self.path


class FolderCollection:
    """The documents of a folder, which are read once, and again after a failure."""

    grows = False
    is_local = False  # documents tell no cost

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._locator = MediaLocator()

    @property
    def title(self) -> str:
        return self._scope.title

    def changes(self, progress: Progress, stopped: Event) -> Iterator[Entry]:
        paths = list(self._json_files(stopped))
        progress.json_files, progress.read_files = len(paths), 0
        for path in paths:
            if stopped.is_set():
                return
            progress.read_files += 1
            document = self.document(path)
            if document is None:
                continue
            media = [self.place(one, path) for one in document.media]
            if self._scope.only in (None, path, *media):
                yield Entry(path, document, media)

    def document(self, path: str) -> Document | None:
        """Return the document in a file; None for other JSON, and for files that cannot be read."""
        file = self._scope.file(path)
        try:
            return read_document(file) if file is not None else None
        except OSError:
            return None

    def place(self, named: NamedMedia, path: str) -> str | None:
        return self._locator.find(named.name, path, named.uri)

    def media(self, place: str) -> LocalMedia | None:
        file = self._scope.file(place)
        return None if file is None else LocalMedia(file, file.name)

    def _json_files(self, stopped: Event) -> Iterator[str]:
        """Yield the JSON files of the folder. All media files are known when the last one was asked for."""
        for path in self._scope.walk():
            if stopped.is_set():
                return
            self._locator.add(path)
            if path.lower().endswith(".json"):
                yield path
