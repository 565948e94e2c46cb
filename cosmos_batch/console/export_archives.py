"""Exports that a person makes on the page: of the documents that are selected, as an archive to save."""

import secrets
import shutil
import zipfile
from pathlib import Path
from threading import Lock

from cosmos_batch.console.records import ExportMade
from cosmos_batch.console.static_export import StaticExport
from cosmos_batch.console.view import View
from cosmos_batch.contract.error import Failure

EXPORTS = "/api/exports"
_KEPT = 3  # archives that can still be saved


class ExportArchives:
    """Makes one archive at a time, in a temporary folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._lock = Lock()
        self._names: list[str] = []

    def make(self, view: View, items: list[int], with_media: bool) -> ExportMade:
        """Write an archive of these documents, with one folder in it. Raises Failure where there is none."""
        if not items:
            raise Failure("InvalidInput", "No document is selected.", "Select some.")
        with self._lock:
            name = f"{secrets.token_hex(8)}.zip"
            page = self._folder / name.removesuffix(".zip")
            try:
                export = StaticExport(view, items)
                export.write(page, with_media, lambda _: None)
                _archive(page, self._folder / name, f"{export.title}-page")
            finally:
                shutil.rmtree(page, ignore_errors=True)
            self._names.append(name)
            while len(self._names) > _KEPT:
                (self._folder / self._names.pop(0)).unlink()
            size = (self._folder / name).stat().st_size
            return ExportMade(url=f"{EXPORTS}/{name}", documents=len(items), bytes=size)

    def file(self, name: str) -> Path | None:
        """Return an archive that was made lately, or None."""
        return self._folder / name if name in self._names else None


def _archive(folder: Path, target: Path, name: str) -> None:
    # Most of it are JPEGs and videos, which do not become smaller.
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, Path(name) / path.relative_to(folder))
