"""Collecting what the page shows of one document."""

from cosmos_batch.console.collection import Collection, MediaFile
from cosmos_batch.console.documents import Document, NamedMedia
from cosmos_batch.console.index import DocumentIndex
from cosmos_batch.console.media_facts import MediaFacts, read_facts
from cosmos_batch.console.pictures import SHEET_COLUMNS, SHEET_FRAMES
from cosmos_batch.console.records import BoxMark, Detail, EventMark, FrameSheet, Media, PointMark, Span
from cosmos_batch.console.run_backend import RefusalError
from cosmos_batch.contract.error import Failure
from cosmos_batch.viewing import marks


class Details:
    """Reads documents again, when they are opened, with the headers of their media."""

    def __init__(self, collection: Collection, index: DocumentIndex) -> None:
        self._collection = collection
        self._index = index
        self._places: dict[int, list[str | None]] = {}  # of the media of documents that were opened

    def read(self, item: int) -> Detail | None:
        """Return what the page shows of a document; None if there is none, or no longer."""
        row, document = self._index.row(item), self.document(item)
        path = self._index.path(item)
        if row is None or document is None or path is None:
            return None
        self._places[item] = [self._collection.place(named, path) for named in document.media]
        media = [self._media(item, number, named) for number, named in enumerate(document.media)]
        return Detail(
            row=row,
            path=path,
            prompt=document.prompt,
            task=document.task,
            answer=document.answer,
            reasoning=document.reasoning,
            error=document.error,
            notes=list(document.notes),
            media=media,
            boxes=[_box(box) for box in document.marks.boxes],
            points=[_point(point) for point in document.marks.points],
            events=[EventMark(span=_span(event.span), caption=event.caption) for event in document.marks.events],
            frame_times=list(document.frame_times),
            frame_sheet=self._frame_sheet(item, document, media),
            timings=document.timings or {},
            gpu_seconds=document.gpu_seconds,
            dollars=document.dollars,
            reused=document.reused,
            document=document.content,
        )

    def document(self, item: int) -> Document | None:
        """Read the document of an item again; None if it is gone or no document any more."""
        path = self._index.path(item)
        return None if path is None else self._collection.document(path)

    def media_file(self, item: int, number: int) -> MediaFile | None:
        """Return a media file of a document; None if it cannot be shown."""
        places = self._places.get(item) or self._index.media(item) or []
        place = places[number] if 0 <= number < len(places) else None
        return None if place is None else self._collection.media(place)

    def media_files(self, item: int) -> dict[int, MediaFile]:
        """Return the media files of a document that can be shown, by their numbers."""
        count = len(self._places.get(item) or self._index.media(item) or [])
        files = {number: self.media_file(item, number) for number in range(count)}
        return {number: file for number, file in files.items() if file is not None}

    def _media(self, item: int, number: int, named: NamedMedia) -> Media:
        try:
            file = self.media_file(item, number)
            if file is None:
                return Media(role=named.role, name=named.name, present=False)
            return self._shown(item, number, named, read_facts(file.open()))
        except (Failure, OSError, RefusalError) as error:
            problem = error.error.message if isinstance(error, Failure) else f"It cannot be read: {error}"
            return Media(role=named.role, name=named.name, present=True, problem=problem)

    def _shown(self, item: int, number: int, named: NamedMedia, facts: MediaFacts) -> Media:
        url: str | None = self._index.media_url(item, number)
        if facts.obstacle is not None:
            url = self._index.media_url(item, number, "picture") if facts.medium == "image" else None
        return Media(
            role=named.role,
            name=named.name,
            present=True,
            medium=facts.medium,
            width=facts.width,
            height=facts.height,
            seconds=facts.seconds,
            codec=facts.codec,
            offset=facts.offset,
            url=url,
            preview=self._index.media_url(item, number, "preview") if facts.medium == "video" else None,
            preview_reason=facts.obstacle,
            poster=self._index.media_url(item, number, "poster"),
        )

    def _frame_sheet(self, item: int, document: Document, media: list[Media]) -> FrameSheet | None:
        """Return the picture of the frames that the model saw, which are those of the first video."""
        if not document.frame_times or first_video(media) is None:
            return None
        count = min(len(document.frame_times), SHEET_FRAMES)
        return FrameSheet(url=self._index.item_url(item, "frames"), columns=min(SHEET_COLUMNS, count), count=count)


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
