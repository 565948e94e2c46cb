"""Finding the media files that a document names, among the files of the opened folder."""

from collections import defaultdict
from pathlib import PurePosixPath

from cosmos_batch.catalogue.formats import EXTENSIONS, extension


class MediaLocator:
    """All media files of a folder, by their names.

    A name in a document is hostile: it is looked up here, and never joined to a path.
    """

    def __init__(self) -> None:
        self._paths: defaultdict[str, dict[str, None]] = defaultdict(dict)  # each once, in their order

    def add(self, path: str) -> None:
        """Add a file by its path below the root, if its name is that of a media file."""
        if extension(path) in EXTENSIONS:
            self._paths[PurePosixPath(path).name][path] = None

    def find(self, name: str, document: str, uri: str | None = None) -> str | None:
        """Return the path of the file that a document names, or None.

        Of several files with this name, the one wins whose path ends like `uri`; then one in the document's folder;
        then the one that shares the most folders with the document.
        """
        paths = self._paths.get(name, ())
        return max(paths, key=lambda path: _likeness(path, document, uri or ""), default=None)


def _likeness(path: str, document: str, uri: str) -> tuple[int, int, int]:
    folders, of_document = PurePosixPath(path).parent.parts, PurePosixPath(document).parent.parts
    of_uri = PurePosixPath(uri).parent.parts
    shared = _same(folders, of_document)
    return _same(folders[::-1], of_uri[::-1]), shared, -len(folders)


def _same(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """Return how many parts are the same from the beginning on."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
