"""Writes the page with its data as static files, which open from `file://` without a server.

A page that is opened from a file may load scripts beside it, but no JSON: the data are scripts that a tag loads.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

from cosmos_batch.console.built_page import STATIC
from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.pictures import PICTURE_SIDE, write_poster
from cosmos_batch.console.records import Detail, Facet, Media, Row, State
from cosmos_batch.console.redaction import redact
from cosmos_batch.console.transcoding import write_preview
from cosmos_batch.console.view import View
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure

CHUNK = 100  # documents of one script
_NOT_COPIED = (
    "This export was made without media: the file was not copied into it. To see it here, export again with --media, "
    "or on the console's page by Export with media."
)
_NOT_WRITTEN = "The file could not be copied into this export. Whoever has made it has the original."
_POLICY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src 'self' file: data:; "
    "media-src 'self' file:; base-uri 'none'; form-action 'none'"
)


class StaticExport:
    """Documents of a view that was read to its end: all of them, or those with the given numbers."""

    def __init__(self, view: View, items: Sequence[int] | None = None) -> None:
        """Raises Failure where the view could not be read to its end: documents would be missing."""
        if view.scan.problem is not None:
            raise Failure(
                "Internal",
                f"Nothing is exported, because documents would be missing: {view.scan.problem}",
                "Export again when all can be read.",
            )
        self._view = view
        self._items = view.index.all() if items is None else items

    @property
    def title(self) -> str:
        """Return the name of what was opened, as the export may show it."""
        return str(redact(self._view.scan.state().title))

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return len(self._items)

    def media_size(self) -> tuple[int, int]:
        """Return the number of the documents' media files, and their bytes."""
        files = {file.key: file.size for item in self._items for file in self._view.details.media_files(item).values()}
        return len(files), sum(files.values())

    def write(self, target: Path, with_media: bool, report: Callable[[str], None]) -> None:
        """Write the page into a folder. What media cannot be written is reported, and left out."""
        (target / "data").mkdir(parents=True)
        _write_page(target)
        rows: list[Row] = []
        details = (
            self._detail(item, position, target, with_media, report)
            for position, item in enumerate(self._items, start=1)
        )
        number = 0
        while chunk := list(islice(details, CHUNK)):
            rows += [detail.row for detail in chunk]
            text = _script_json([_public(detail) for detail in chunk])
            (target / "data" / f"details-{number}.js").write_text(f"cosmosBatch.details({text})\n", encoding="utf-8")
            number += 1
        self._write_rows(target, rows)

    def _detail(
        self, item: int, position: int, target: Path, with_media: bool, report: Callable[[str], None]
    ) -> Detail:
        """Return a document, numbered by its position, with the URLs of its files in the export, which are written."""
        detail = self._view.details.read(item)
        if detail is None:
            raise Failure("InvalidInput", "A document has changed while it was exported.", "Export again.")
        files = self._view.details.media_files(item)
        media = [
            _Exported(target, position, number, files[number], report).write(one, with_media)
            if number in files
            else one
            for number, one in enumerate(detail.media)
        ]
        shown = next((one for one in media if one.present), None)
        urls = {"poster": shown and shown.poster, "media": shown and shown.url}
        row = detail.row.model_copy(update={"id": position, **urls})
        return detail.model_copy(update={"media": media, "frame_sheet": None, "row": row})

    def _write_rows(self, target: Path, rows: list[Row]) -> None:
        """Write the rows, the texts in which the page searches, and what they can be filtered by."""
        data = {
            "state": _public(self._state(rows)),
            "rows": [_public(row) for row in rows],
            "texts": [redact(self._view.index.text(item)) for item in self._items],
            "chunk": CHUNK,
        }
        (target / "data" / "rows.js").write_text(f"window.cosmosBatch = {_script_json(data)}\n", encoding="utf-8")

    def _state(self, rows: list[Row]) -> State:
        failed = sum(row.kind == "error" for row in rows)
        return State(
            title=self.title,
            json_files=len(rows),
            read_files=len(rows),
            documents=len(rows),
            version=0,
            done=True,
            succeeded=len(rows) - failed,
            failed=failed,
            error_codes=_facets(row.error_code or "" for row in rows),
            models=_facets(row.model for row in rows),
            labels=_facets(label for row in rows for label in row.labels),
            scored=any(row.score is not None for row in rows),
            varied=any(row.variant for row in rows),
            is_local=self._view.is_local,
            exported=True,
        )


def _facets(values: Iterable[str]) -> list[Facet]:
    """Return the values with their counts, the most frequent first."""
    return [Facet(value=value, count=count) for value, count in Counter(filter(None, values)).most_common()]


class _Exported:
    """The files of one media file of a document in an export."""

    def __init__(self, target: Path, item: int, number: int, file: MediaFile, report: Callable[[str], None]) -> None:
        self._target = target
        self._folder = f"media/{item}"
        self._number = number
        self._file = file
        self._report = report

    def write(self, media: Media, with_media: bool) -> Media:
        """Write the poster, and the file itself or its conversion. Returns the media with their URLs."""
        (self._target / self._folder).mkdir(parents=True, exist_ok=True)
        poster = self._write(f"{self._number}-poster.jpg", lambda path: write_poster(self._file.open(), path))
        url = self._write_file(media) if with_media and media.medium else None
        left_out = None if url or not media.medium else _NOT_WRITTEN if with_media else _NOT_COPIED
        return media.model_copy(update={"poster": poster, "url": url, "preview": None, "left_out": left_out})

    def _write_file(self, media: Media) -> str | None:
        if media.preview_reason is not None and media.medium == "image":
            return self._write(f"{self._number}.jpg", lambda path: write_poster(self._file.open(), path, PICTURE_SIDE))
        if media.preview_reason is None:
            suffix = Path(self._file.name).suffix.lower()
            return self._whole(f"{self._number}{suffix}", shutil.copyfile)
        return self._whole(f"{self._number}.mp4", lambda file, path: write_preview(file, path, lambda _: None))

    def _whole(self, name: str, write: Callable[[Path, Path], object]) -> str | None:
        def make(path: Path) -> None:
            with self._file.whole() as file:
                write(file, path)

        return self._write(name, make)

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
