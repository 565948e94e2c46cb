"""Files that a person drops on the page: they are kept in a folder of the console until they are uploaded to S3."""

import re
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from cosmos_batch.console.new_run_records import Dropped
from cosmos_batch.contract.error import Failure

_NAME_LIMIT = 255  # bytes of a file's name
_FREE = 1 << 30  # bytes that stay free on the disk
_ID = re.compile(r"[0-9a-f]{16}")


class DroppedFiles:
    """Folders of files, each for one run."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder

    async def add(self, folder: str | None, name: str, content: AsyncIterator[bytes]) -> Dropped:
        """Write a file into a folder, which is new if there is none. Raises Failure for a name that is none.

        A further file of the same name is written beside the first, with a number in its name.
        """
        _check_name(name)
        place = self.path(folder) if folder else self._folder / secrets.token_hex(8)
        place.mkdir(exist_ok=True)
        file = _new_file(place, name)
        try:
            with file:
                async for part in content:
                    self._refuse_full_disk(len(part))
                    file.write(part)
        except BaseException:
            Path(file.name).unlink()
            raise
        files = [path.stat().st_size for path in place.iterdir()]
        return Dropped(folder=place.name, files=len(files), bytes=sum(files))

    def path(self, folder: str) -> Path:
        """Return the path of a folder. Raises Failure where there is none."""
        path = self._folder / folder
        if not _ID.fullmatch(folder) or not path.is_dir():
            raise Failure("InvalidInput", "The dropped files are gone.", "Drop them again.")
        return path

    def only_file(self, folder: str) -> Path:
        """Return the path of the one file of a folder. Raises Failure where there is none, or more than one."""
        files = list(self.path(folder).iterdir())
        if len(files) != 1:
            raise Failure("InvalidInput", f"A parameter takes one file, not {len(files)}.", "Drop the one file again.")
        return files[0]

    def remove(self, folder: str) -> None:
        """Remove the files of a folder."""
        shutil.rmtree(self.path(folder))

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


def _new_file(folder: Path, name: str) -> BinaryIO:
    """Open a new file for writing: `clip-2.mp4` where there is a `clip.mp4`. Raises Failure if that is too long."""
    number, new = 1, name
    while True:
        _check_name(new)
        with suppress(FileExistsError):
            return (folder / new).open("xb")
        number += 1
        new = f"{Path(name).stem}-{number}{Path(name).suffix}"
