"""The files that may be read: those in the folder that was opened, and no others."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosmos_batch.contract.error import Failure

_DEPTH = 64  # levels of folders that are looked into


@dataclass(frozen=True)
class Scope:
    """A folder that was opened, and the file in it where only one was.

    Attributes
    ----------
    root
        The folder, without symbolic links in its path.
    only
        The one document or media file to show, as a path below the root; None for all documents of the folder.
    """

    root: Path
    only: str | None = None

    @classmethod
    def of(cls, path: Path) -> "Scope":
        """Return the scope of a folder or file that a person named. Raises Failure (InvalidInput)."""
        opened = path.expanduser().resolve()
        if opened.is_dir():
            return cls(opened)
        if opened.is_file():
            return cls(opened.parent, opened.name)
        raise Failure("InvalidInput", f"{path} is no folder and no file.", "Name a folder with results, or a document.")

    @property
    def title(self) -> str:
        """Return the name to show for what was opened, without the folders above it."""
        return self.only or self.root.name or "/"

    def file(self, relative: str) -> Path | None:
        """Return the path of a file below the root, or None if it is gone or a link leads out of the root."""
        path = (self.root / relative).resolve()
        return path if path.is_relative_to(self.root) and path.is_file() else None

    def walk(self) -> Iterator[str]:
        """Yield the paths below the root of all files, in a fixed order. Hidden folders and links are left out.

        Of a single opened file, only the files of its own folder are listed.
        """
        yield from _files(self.root, "", _DEPTH if self.only is None else 0)


def _files(folder: Path | str, inner: str, depth: int) -> Iterator[str]:
    """Yield the path of each file in a folder and in `depth` levels of folders below it.

    `inner` is the folder's path below the root, with which each path begins. A folder that cannot be read is skipped.
    """
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if not _is_text(entry.name):
            continue
        if entry.is_file(follow_symlinks=False):
            yield inner + entry.name
        elif depth and entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _files(entry.path, f"{inner}{entry.name}/", depth - 1)


def _is_text(name: str) -> bool:
    """Return whether a file name is valid UTF-8; Linux allows any bytes, and JSON does not."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
