"""A collection that is shown: its index, which is read in the background, and the details of its documents."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from cosmos_batch.console.collection import Collection
from cosmos_batch.console.details import Details
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.records import ChosenDocuments, Query, Row
from cosmos_batch.console.scanning import Scan

VIEWS = "/api/views"  # below which each view has its URL


class View:
    """One collection. It is read from the moment that it is made."""

    def __init__(self, collection: Collection, name: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cosmos-batch-console-")
        self.index = DocumentIndex(Path(self._folder.name) / "index.sqlite", f"{VIEWS}/{name}")
        self.scan = Scan(collection, self.index)
        self.details = Details(collection, self.index)
        self.is_local = collection.is_local
        self.scan.start()

    def chosen(self, selection: ChosenDocuments) -> list[int]:
        """Return the numbers of the documents that a person has chosen."""
        if selection.items is not None:
            return selection.items
        left_out = frozenset(selection.left_out)
        return [item for item in self.index.ids(selection.query or Query()) if item not in left_out]

    def selected(self, selection: ChosenDocuments) -> Iterator[Row]:
        """Yield the rows of the documents that a person has chosen."""
        for item in self.chosen(selection):
            row = self.index.row(item)
            if row is not None:
                yield row

    def close(self) -> None:
        """End the reading, and delete the index."""
        self.scan.stop()
        self.index.close()
        self._folder.cleanup()
