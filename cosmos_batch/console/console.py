"""The console: what a person has opened, and what was made of its media, in a temporary folder."""

import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from cosmos_batch.console.collection import Collection
from cosmos_batch.console.dropped_files import DroppedFiles
from cosmos_batch.console.export_archives import ExportArchives
from cosmos_batch.console.folder import FolderCollection
from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.console.previews import Previews
from cosmos_batch.console.run_backend import RunBackend
from cosmos_batch.console.scope import Scope
from cosmos_batch.console.view import View

FOLDER = "folder"  # the view of an opened folder or prefix
_VIEWS = 6  # that are open at the same time; the one that nobody has asked for the longest is closed
_PICTURES_LIMIT = 512 * 1024**2  # bytes of kept posters and frames
_PREVIEWS_LIMIT = 4 * 1024**3  # bytes of kept conversions

OpenCollection = Callable[[str], Collection | None]
"""A function that returns the collection of a view's name, or None where there is none."""


class Console:
    """Views by their names, which are opened when they are first asked for."""

    def __init__(self, open_collection: OpenCollection, home: str, backend: RunBackend | None = None) -> None:
        """`home` is what the page shows first: the name of a view, or nothing for the list of runs.

        `backend` has the runs of a deployment; None where a folder was opened.
        """
        self.home = home
        self.backend = backend
        self._folder = tempfile.TemporaryDirectory(prefix="cosmos-batch-console-")
        self.scratch = Path(self._folder.name)
        self.pictures = KeptFiles(self.scratch / "pictures", _PICTURES_LIMIT)
        self.previews = Previews(KeptFiles(self.scratch / "previews", _PREVIEWS_LIMIT))
        self.exports = ExportArchives(self.scratch / "exports")
        self.dropped = DroppedFiles(self.scratch / "dropped")
        self._open_collection = open_collection
        self._lock = Lock()
        self._views: OrderedDict[str, View] = OrderedDict()

    @classmethod
    def of_folder(cls, scope: Scope) -> Self:
        """Return the console of a folder, or of one file in it."""
        return cls.of_collection(FolderCollection(scope))

    @classmethod
    def of_collection(cls, collection: Collection) -> Self:
        """Return the console of one collection, and no runs."""
        return cls(lambda name: collection if name == FOLDER else None, FOLDER)

    def __enter__(self) -> Self:
        """Begin to read the view that is shown first, if there is one."""
        if self.home:
            self.view(self.home)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Stop reading and converting, and delete all temporary files."""
        for view in self._views.values():
            view.close()
        self.previews.stop()
        self._folder.cleanup()

    def view(self, name: str) -> View | None:
        """Return a view; None where there is nothing of this name."""
        with self._lock:
            if name not in self._views:
                collection = self._open_collection(name)
                if collection is None:
                    return None
                self._views[name] = View(collection, name)
                while len(self._views) > _VIEWS:
                    self._views.popitem(last=False)[1].close()
            self._views.move_to_end(name)
            return self._views[name]
