"""Files that a person drops on the page: they are kept in a folder of the console until they are uploaded to S3."""

import hashlib
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cosmos_batch.console.new_run_records import Dropped
from cosmos_batch.contract.error import Failure

_NAME_LIMIT = 255  # bytes of a file's name
_FREE = 1 << 30  # bytes that stay free on the disk


@dataclass(frozen=True)
class DroppedFolder:
    """The files that were dropped for one run or one parameter, with the SHA-256 digests of their contents."""

    path: Path
    digests: Mapping[Path, str]

    def only_file(self) -> Path:
        """Return the path of the one file. Raises Failure where there is none, or more than one."""
        if len(self.digests) != 1:
            count = len(self.digests)
            raise Failure("InvalidInput", f"A parameter takes one file, not {count}.", "Drop the one file again.")
        return next(iter(self.digests))


class DroppedFiles:
    """Folders of files, each for one run or one parameter of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        # By folder, the digests of the files that were received completely.
        self._digests: dict[str, dict[Path, str]] = {}

    async def add(self, folder: str | None, name: str, content: AsyncIterator[bytes]) -> Dropped:
        """Write a file into a folder, which is new if there is none. Raises Failure for a name that a file cannot have.

        A further file of the same name is written beside the first, with a number in its name. If one of them has the
        same content, it is not kept: a file that was dropped twice is asked about once.
        """
        _check_name(name)
        place = self.folder(folder).path if folder else self._new_folder()
        file, namesakes = _new_file(place, name)
        digest = hashlib.sha256()
        try:
            with file:
                async for part in content:
                    self._refuse_full_disk(len(part))
                    digest.update(part)
                    file.write(part)
        except BaseException:
            Path(file.name).unlink()
            raise
        digests = self._digests[place.name]
        is_new = digest.hexdigest() not in [digests.get(path) for path in namesakes]
        if is_new:
            digests[Path(file.name)] = digest.hexdigest()
        else:
            Path(file.name).unlink()
        sizes = [path.stat().st_size for path in digests]
        return Dropped(folder=place.name, files=len(sizes), bytes=sum(sizes), is_new=is_new)

    def folder(self, name: str) -> DroppedFolder:
        """Return a folder. Raises Failure where there is none."""
        path = self._folder / name
        if name not in self._digests or not path.is_dir():
            raise Failure("InvalidInput", "The dropped files are gone.", "Drop them again.")
        return DroppedFolder(path, dict(self._digests[name]))

    def _new_folder(self) -> Path:
        path = self._folder / secrets.token_hex(8)
        path.mkdir()
        self._digests[path.name] = {}
        return path

    def _refuse_full_disk(self, size: int) -> None:
        if shutil.disk_usage(self._folder).free - size < _FREE:
            raise Failure(
                "InvalidInput",
                "The disk of this machine has no room for the files.",
                "Upload them with `cosmos-batch runs start FOLDER`, which copies nothing first.",
            )


def _check_name(name: str) -> None:
    """Raise Failure for what cannot be a file's name."""
    if not name or len(name.encode()) > _NAME_LIMIT or name in (".", "..") or re.search(r"[/\\\0]", name):
        raise Failure("InvalidInput", f"{name!r} is no name of a file.", "Rename the file, and drop it again.")


def _new_file(folder: Path, name: str) -> tuple[BinaryIO, list[Path]]:
    """Open a new file for writing: `clip-2.mp4` where there is a `clip.mp4`, which is returned too.

    Raises Failure if the name is too long.
    """
    namesakes: list[Path] = []
    number, new = 1, name
    while True:
        _check_name(new)
        with suppress(FileExistsError):
            return (folder / new).open("xb"), namesakes
        namesakes.append(folder / new)
        number += 1
        new = f"{Path(name).stem}-{number}{Path(name).suffix}"
