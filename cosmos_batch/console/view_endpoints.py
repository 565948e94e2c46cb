"""The answers to requests about a view: its state, rows, documents, media, posters and previews."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.console import Console
from cosmos_batch.console.details import first_video
from cosmos_batch.console.export_archives import EXPORTS
from cosmos_batch.console.media_facts import read_facts
from cosmos_batch.console.pictures import PICTURE_SIDE, SHEET_FRAMES, write_frame_sheet, write_poster
from cosmos_batch.console.records import ChosenDocuments, ExportMade, ExportRequest, MediaSize, Query
from cosmos_batch.console.responses import file_response, json_response, media_response, read_body
from cosmos_batch.console.static_export import StaticExport
from cosmos_batch.console.view import VIEWS, View
from cosmos_batch.contract.error import explain

_ROWS = 200  # of one answer, at most
_PICTURES = 2  # made at the same time
_TYPES_KEPT = 10_000  # content types of media files


class ViewEndpoints:
    """Answers the requests about a view. Methods without `async` run in threads."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._limiter: CapacityLimiter | None = None
        self._types = _ContentTypes()

    def routes(self) -> list[Route]:
        """Return the routes of all endpoints."""
        view = f"{VIEWS}/{{view}}"
        item_path = f"{view}/items/{{item:int}}"
        media = f"{item_path}/media/{{number:int}}"
        return [
            Route(f"{view}/state", self.state),
            Route(f"{view}/rows", self.rows),
            Route(f"{view}/exports", self.export, methods=["POST"]),
            Route(f"{view}/media-size", self.media_size, methods=["POST"]),
            Route(f"{EXPORTS}/{{name}}", self.exported),
            Route(item_path, self.detail),
            Route(f"{item_path}/frames", self.frames),
            Route(media, self.media),
            Route(f"{media}/poster", self.poster),
            Route(f"{media}/picture", self.picture),
            Route(f"{media}/preview", self.preview),
            Route(f"{media}/preview/file", self.preview_file),
        ]

    def state(self, request: Request) -> Response:
        return json_response(self._view(request).scan.state())

    def rows(self, request: Request) -> Response:
        values = dict(request.query_params)
        try:
            offset, limit = int(values.pop("offset", "0")), int(values.pop("limit", str(_ROWS)))
        except ValueError as error:
            raise HTTPException(400, "offset and limit are numbers") from error
        return json_response(
            self._view(request).index.rows(read_query(values), max(0, offset), min(max(0, limit), _ROWS))
        )

    async def export(self, request: Request) -> Response:
        body = await read_body(request, ExportRequest)
        view = await to_thread.run_sync(self._view, request)
        return json_response(await to_thread.run_sync(self._make_export, view, body))

    async def media_size(self, request: Request) -> Response:
        """Return how much the media of chosen documents are, which a person is told before they are copied."""
        body = await read_body(request, ChosenDocuments)
        view = await to_thread.run_sync(self._view, request)
        files, size = await to_thread.run_sync(lambda: StaticExport(view, view.chosen(body)).media_size())
        return json_response(MediaSize(files=files, bytes=size))

    def exported(self, request: Request) -> Response:
        file = self._console.exports.file(request.path_params["name"])
        if file is None:
            raise HTTPException(404, "There is no such export, or not any more.")
        return FileResponse(file, media_type="application/zip", filename="cosmos-batch.zip")

    def _make_export(self, view: View, options: ExportRequest) -> ExportMade:
        return self._console.exports.make(view, view.chosen(options.selection), options.media)

    def detail(self, request: Request) -> Response:
        detail = self._view(request).details.read(request.path_params["item"])
        if detail is None:
            raise HTTPException(404, "There is no such document, or not any more.")
        return json_response(detail)

    def media(self, request: Request) -> Response:
        """Serve a media file, whole or the range that the player asks for, under the type of its content."""
        file = self._file(request)
        return media_response(file, self._types.of(file), request.headers)

    async def poster(self, request: Request) -> Response:
        file = await to_thread.run_sync(self._file, request)
        return await self._picture(request, f"poster\0{file.key}", lambda target: write_poster(file.open(), target))

    async def picture(self, request: Request) -> Response:
        """Serve an image that browsers do not show as JPEG."""
        file = await to_thread.run_sync(self._file, request)
        return await self._picture(
            request, f"picture\0{file.key}", lambda target: write_poster(file.open(), target, PICTURE_SIDE)
        )

    async def frames(self, request: Request) -> Response:
        file, times = await to_thread.run_sync(self._video_and_frame_times, request)

        def write(target: Path) -> None:
            with file.whole() as path:
                write_frame_sheet(path, times, target)

        return await self._picture(request, f"frames\0{times}\0{file.key}", write)

    def preview(self, request: Request) -> Response:
        url = self._view(request).index.media_url(
            request.path_params["item"], request.path_params["number"], "preview/file"
        )
        return json_response(self._console.previews.ask(self._file(request), url))

    def preview_file(self, request: Request) -> Response:
        converted = self._console.previews.file(self._file(request))
        if converted is None:
            raise HTTPException(404, "The video is not converted.")
        return file_response(converted, "video/mp4", request.headers)

    def _video_and_frame_times(self, request: Request) -> tuple[MediaFile, list[float]]:
        """Return the video of a document, and the times of the frames that the model saw."""
        item, details = request.path_params["item"], self._view(request).details
        detail = details.read(item)
        number = first_video(detail.media) if detail else None
        file = details.media_file(item, number) if number is not None else None
        if detail is None or file is None or not detail.frame_times:
            raise HTTPException(404, "There are no frames of this document.")
        return file, sorted(detail.frame_times[:SHEET_FRAMES])

    def _view(self, request: Request) -> View:
        view = self._console.view(request.path_params["view"])
        if view is None:
            raise HTTPException(404, "There is nothing of this name.")
        return view

    def _file(self, request: Request) -> MediaFile:
        file = self._view(request).details.media_file(request.path_params["item"], request.path_params["number"])
        if file is None:
            raise HTTPException(404, "The file is not there, or not any more.")
        return file

    async def _picture(self, request: Request, key: str, make: Callable[[Path], None]) -> Response:
        self._limiter = self._limiter or CapacityLimiter(_PICTURES)
        path = await to_thread.run_sync(self._console.pictures.get, key, make, limiter=self._limiter)
        return file_response(path, "image/jpeg", request.headers)


class _ContentTypes:
    """The types of media files by their content, of which a player asks for many ranges."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, str] = OrderedDict()

    def of(self, file: MediaFile) -> str:
        """Return the type of a file, whose header is read unless that was done lately."""
        key = file.key
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept
        content_type = read_facts(file.open()).content_type
        with self._lock:
            self._kept[key] = content_type
            while len(self._kept) > _TYPES_KEPT:
                self._kept.popitem(last=False)
        return content_type


def read_query(values: dict[str, str]) -> Query:
    """Return the query of a request's parameters. Raises HTTPException where one of them is wrong."""
    try:
        return Query.model_validate_strings(values)
    except ValidationError as error:
        raise HTTPException(400, explain(error)) from error
