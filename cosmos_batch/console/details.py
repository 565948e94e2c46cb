"""Collecting what the page shows of one document."""

from pathlib import Path

from cosmos_batch.console.documents import Document, NamedMedia, read_document
from cosmos_batch.console.index import DocumentIndex, media_url
from cosmos_batch.console.media_facts import MediaFacts, read_facts
from cosmos_batch.console.pictures import SHEET_COLUMNS, SHEET_FRAMES
from cosmos_batch.console.records import BoxMark, Detail, EventMark, FrameSheet, Media, PointMark, Span
from cosmos_batch.console.scope import Scope
from cosmos_batch.contract.error import Failure
from cosmos_batch.viewing import marks


class Details:
    """Reads documents again, when they are opened, with the headers of their media."""

    def __init__(self, scope: Scope, index: DocumentIndex) -> None:
        self._scope = scope
        self._index = index

    def read(self, item: int) -> Detail | None:
        """Return what the page shows of a document; None if there is none, or no longer."""
        files, row = self._index.files(item), self._index.row(item)
        document = self.document(item)
        if files is None or row is None or document is None:
            return None
        path, _ = files
        media = [self._media(item, number, named) for number, named in enumerate(document.media)]
        return Detail(
            row=row,
            path=path,
            prompt=document.prompt,
            answer=document.answer,
            reasoning=document.reasoning,
            error=document.error,
            notes=list(document.notes),
            media=media,
            boxes=[_box(box) for box in document.marks.boxes],
            points=[_point(point) for point in document.marks.points],
            events=[EventMark(span=_span(event.span), caption=event.caption) for event in document.marks.events],
            frame_times=list(document.frame_times),
            frame_sheet=_frame_sheet(item, document, media),
            timings=document.timings or {},
            document=document.content,
        )

    def document(self, item: int) -> Document | None:
        """Read the document of an item again; None if it is gone or no document any more."""
        files = self._index.files(item)
        file = self._scope.file(files[0]) if files else None
        try:
            return read_document(file) if file is not None else None
        except OSError:
            return None

    def media_file(self, item: int, number: int) -> Path | None:
        """Return a media file of a document; None if it is not in the folder."""
        files = self._index.files(item)
        if files is None or not 0 <= number < len(files[1]):
            return None
        path = files[1][number]
        return None if path is None else self._scope.file(path)

    def _media(self, item: int, number: int, named: NamedMedia) -> Media:
        file = self.media_file(item, number)
        if file is None:
            return Media(role=named.role, name=named.name, found=False)
        try:
            return _shown(item, number, named, read_facts(file))
        except Failure as failure:
            return Media(role=named.role, name=named.name, found=True, problem=failure.error.message)


def _shown(item: int, number: int, named: NamedMedia, facts: MediaFacts) -> Media:
    url: str | None = media_url(item, number)
    if facts.obstacle is not None:
        url = media_url(item, number, "picture") if facts.medium == "image" else None
    return Media(
        role=named.role,
        name=named.name,
        found=True,
        medium=facts.medium,
        width=facts.width,
        height=facts.height,
        seconds=facts.seconds,
        codec=facts.codec,
        offset=facts.offset,
        url=url,
        preview=media_url(item, number, "preview") if facts.medium == "video" else None,
        preview_reason=facts.obstacle,
        poster=media_url(item, number, "poster"),
    )


def _frame_sheet(item: int, document: Document, media: list[Media]) -> FrameSheet | None:
    """Return the picture of the frames that the model saw, which are those of the first video."""
    if not document.frame_times or first_video(media) is None:
        return None
    count = min(len(document.frame_times), SHEET_FRAMES)
    return FrameSheet(url=f"/api/items/{item}/frames", columns=min(SHEET_COLUMNS, count), count=count)


def first_video(media: list[Media]) -> int | None:
    """Return the number of the first video among media files, or None."""
    return next((number for number, one in enumerate(media) if one.medium == "video"), None)


def _span(span: marks.TimeSpan) -> Span:
    return Span(start=span.start, end=span.end)


def _box(box: marks.Box) -> BoxMark:
    return BoxMark(
        left=box.left,
        top=box.top,
        right=box.right,
        bottom=box.bottom,
        label=box.label,
        span=None if box.span is None else _span(box.span),
    )


def _point(point: marks.Point) -> PointMark:
    return PointMark(x=point.x, y=point.y, label=point.label, span=None if point.span is None else _span(point.span))
