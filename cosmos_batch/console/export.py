"""Writes the page with its data as static files, which open from `file://` without a server.

A page that is opened from a file may load scripts beside it, but no JSON: the data are scripts that a tag loads.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from cosmos_batch.console.application import STATIC, Console
from cosmos_batch.console.pictures import PICTURE_SIDE, write_poster
from cosmos_batch.console.records import Detail, Media, Row
from cosmos_batch.console.redaction import redact
from cosmos_batch.console.scope import Scope
from cosmos_batch.console.transcoding import write_preview
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure

CHUNK = 100  # documents of one script
_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; "
    "media-src 'self' file:; base-uri 'none'; form-action 'none'"
)


class Export:
    """All documents of a scope, which are read on entering."""

    def __init__(self, scope: Scope) -> None:
        self._console = Console(scope)

    def __enter__(self) -> Self:
        """Read the documents."""
        self._console.__enter__()
        self._console.scan.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete what was made for reading."""
        self._console.__exit__(kind, error, trace)

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return self._console.index.count

    def media_size(self) -> tuple[int, int]:
        """Return the number of the documents' media files, and their bytes."""
        files = {file for item in self._items() for _, file in self._media_files(item)}
        return len(files), sum(file.stat().st_size for file in files)

    def write(self, target: Path, with_media: bool, report: Callable[[str], None]) -> None:
        """Write the page into a folder. What media cannot be written is reported, and left out."""
        (target / "data").mkdir(parents=True)
        _write_page(target)
        rows: list[Row] = []
        details = (self._detail(item, target, with_media, report) for item in self._items())
        number = 0
        while chunk := [detail for detail in islice(details, CHUNK) if detail is not None]:
            rows += [detail.row for detail in chunk]
            text = _script_json([_public(detail) for detail in chunk])
            (target / "data" / f"details-{number}.js").write_text(f"cosmosBatch.details({text})\n", encoding="utf-8")
            number += 1
        self._write_rows(target, rows)

    def _items(self) -> Iterator[int]:
        yield from range(1, self.documents + 1)

    def _media_files(self, item: int) -> Iterator[tuple[int, Path]]:
        found = self._console.index.files(item)
        for number in range(len(found[1]) if found else 0):
            file = self._console.details.media_file(item, number)
            if file is not None:
                yield number, file

    def _detail(self, item: int, target: Path, with_media: bool, report: Callable[[str], None]) -> Detail:
        """Return a document with the URLs of its files in the export, which are written."""
        detail = self._console.details.read(item)
        if detail is None:
            raise Failure("InvalidInput", "A document has changed while it was exported.", "Export again.")
        files = dict(self._media_files(item))
        media = [
            _Exported(target, item, number, files[number], report).write(one, with_media) if number in files else one
            for number, one in enumerate(detail.media)
        ]
        poster = next((one.poster for one in media if one.found), None)
        return detail.model_copy(
            update={"media": media, "frame_sheet": None, "row": detail.row.model_copy(update={"poster": poster})}
        )

    def _write_rows(self, target: Path, rows: list[Row]) -> None:
        """Write the rows, the texts in which the page searches, and what they can be filtered by."""
        data = {
            "state": _public(self._console.scan.state().model_copy(update={"exported": True})),
            "rows": [_public(row) for row in rows],
            "texts": [redact(text) for text in self._console.index.texts()],
            "chunk": CHUNK,
        }
        (target / "data" / "rows.js").write_text(f"window.cosmosBatch = {_script_json(data)}\n", encoding="utf-8")


class _Exported:
    """The files of one media file of a document in an export."""

    def __init__(self, target: Path, item: int, number: int, file: Path, report: Callable[[str], None]) -> None:
        self._target = target
        self._folder = f"media/{item}"
        self._number = number
        self._file = file
        self._report = report

    def write(self, media: Media, with_media: bool) -> Media:
        """Write the poster, and the file itself or its conversion. Returns the media with their URLs."""
        (self._target / self._folder).mkdir(parents=True, exist_ok=True)
        poster = self._write(f"{self._number}-poster.jpg", lambda path: write_poster(self._file, path))
        url = self._write_file(media) if with_media and media.medium else None
        return media.model_copy(update={"poster": poster, "url": url, "preview": None})

    def _write_file(self, media: Media) -> str | None:
        if media.preview_reason is not None and media.medium == "image":
            return self._write(f"{self._number}.jpg", lambda path: write_poster(self._file, path, PICTURE_SIDE))
        if media.preview_reason is None:
            return self._write(
                f"{self._number}{self._file.suffix.lower()}", lambda path: shutil.copyfile(self._file, path)
            )
        return self._write(f"{self._number}.mp4", lambda path: write_preview(self._file, path, lambda _: None))

    def _write(self, name: str, make: Callable[[Path], object]) -> str | None:
        path = self._target / self._folder / name
        try:
            make(path)
        except (Failure, OSError) as error:
            path.unlink(missing_ok=True)
            reason = error.error.message if isinstance(error, Failure) else str(error)
            self._report(f"Left out: {self._file.name}: {reason}")
            return None
        return f"{self._folder}/{name}"


def _write_page(target: Path) -> None:
    for name in ("app.js", "app.css"):
        shutil.copyfile(STATIC / name, target / name)
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    data = '<script src="data/rows.js" defer></script>'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}" />'
    text = page.replace("<!-- data -->", data).replace("<title>", f"{policy}\n    <title>")
    (target / "index.html").write_text(text, encoding="utf-8")


def _public(model: Model) -> object:
    return redact(model.model_dump(mode="json"))


def _script_json(value: object) -> str:
    """Return JSON that is a JavaScript expression, also in a page where `</script>` would end it."""
    return json.dumps(value).replace("<", "\\u003c")
