"""Files that a person drops on the page: they are kept in a folder of the console until they are uploaded to S3."""

import re
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

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
        """Write a file into a folder, which is new if there is none. Raises Failure for a name that is none."""
        if not name or len(name.encode()) > _NAME_LIMIT or name in (".", "..") or re.search(r"[/\\\0]", name):
            raise Failure("InvalidInput", f"{name!r} is no name of a file.", "Rename the file, and drop it again.")
        place = self.path(folder) if folder else self._folder / secrets.token_hex(8)
        place.mkdir(exist_ok=True)
        try:
            with (place / name).open("wb") as file:
                async for part in content:
                    self._refuse_full_disk(len(part))
                    file.write(part)
        except BaseException:
            (place / name).unlink(missing_ok=True)
            raise
        files = [path.stat().st_size for path in place.iterdir()]
        return Dropped(folder=place.name, files=len(files), bytes=sum(files))

    def path(self, folder: str) -> Path:
        """Return the path of a folder. Raises Failure where there is none."""
        path = self._folder / folder
        if not _ID.fullmatch(folder) or not path.is_dir():
            raise Failure("InvalidInput", "The dropped files are gone.", "Drop them again.")
        return path

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
