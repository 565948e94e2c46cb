"""Answers the page's requests: the page itself, rows, documents, media, posters and previews."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from cosmos_batch.console.details import Details, first_video
from cosmos_batch.console.guard import MEDIA_POLICY, SESSION_PATH, Guard, Session
from cosmos_batch.console.index import DocumentIndex, media_url
from cosmos_batch.console.kept_files import KeptFiles
from cosmos_batch.console.media_facts import read_facts
from cosmos_batch.console.pictures import PICTURE_SIDE, SHEET_FRAMES, write_frame_sheet, write_poster
from cosmos_batch.console.previews import Previews
from cosmos_batch.console.records import Query
from cosmos_batch.console.scanning import Scan
from cosmos_batch.console.scope import Scope
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure, explain

STATIC = Path(__file__).parent / "static"
PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
}
_ROWS = 200  # of one answer, at most
_PICTURES = 2  # made at the same time
_PICTURES_LIMIT = 512 * 1024**2  # bytes of kept posters and frames
_PREVIEWS_LIMIT = 4 * 1024**3  # bytes of kept conversions
_MEDIA_HEADERS = {"content-security-policy": MEDIA_POLICY, "cache-control": "private, max-age=3600"}


class Console:
    """One opened folder: its index, and what was made of its media, in a temporary folder."""

    def __init__(self, scope: Scope) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cosmos-batch-console-")
        scratch = Path(self._folder.name)
        self.index = DocumentIndex(scratch / "index.sqlite")
        self.scan = Scan(scope, self.index)
        self.details = Details(scope, self.index)
        self.pictures = KeptFiles(scratch / "pictures", _PICTURES_LIMIT)
        self.previews = Previews(KeptFiles(scratch / "previews", _PREVIEWS_LIMIT))
        self.scratch = scratch

    def __enter__(self) -> Self:
        """Begin to read the folder."""
        self.scan.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """End what is at work, and delete what was made."""
        self.scan.stop()
        self.previews.stop()
        self.index.close()
        self._folder.cleanup()

    def application(self, session: Session) -> Starlette:
        """Return the ASGI application that serves the page and its data."""
        answers = _Answers(self)
        one = "/api/items/{item:int}"
        media = one + "/media/{number:int}"
        routes = [
            *(Route(path, _page) for path in PAGE),
            Route(SESSION_PATH, session.begin, methods=["POST"]),
            Route("/api/state", answers.state),
            Route("/api/rows", answers.rows),
            Route(one, answers.detail),
            Route(one + "/frames", answers.frames),
            Route(media, answers.media),
            Route(media + "/poster", answers.poster),
            Route(media + "/picture", answers.picture),
            Route(media + "/preview", answers.preview),
            Route(media + "/preview/file", answers.preview_file),
        ]
        handlers = {HTTPException: _explain_status, Failure: _explain_failure}
        return Starlette(routes=routes, middleware=[Middleware(Guard, session=session)], exception_handlers=handlers)


class _Answers:
    """The endpoints. Those without `async` run in threads."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._limiter: CapacityLimiter | None = None

    def state(self, _: Request) -> Response:
        return _json(self._console.scan.state())

    def rows(self, request: Request) -> Response:
        values = dict(request.query_params)
        try:
            offset, limit = int(values.pop("offset", "0")), int(values.pop("limit", str(_ROWS)))
            query = Query.model_validate(values)
        except ValidationError as error:
            raise HTTPException(400, explain(error)) from error
        except ValueError as error:
            raise HTTPException(400, "offset and limit are numbers") from error
        return _json(self._console.index.rows(query, max(0, offset), min(max(0, limit), _ROWS)))

    def detail(self, request: Request) -> Response:
        detail = self._console.details.read(request.path_params["item"])
        if detail is None:
            raise HTTPException(404, "There is no such document, or not any more.")
        return _json(detail)

    def media(self, request: Request) -> Response:
        """Serve a media file, whole or the range that the player asks for, under the type of its content."""
        file = self._file(request)
        return FileResponse(file, media_type=read_facts(file).content_type, headers=_MEDIA_HEADERS)

    async def poster(self, request: Request) -> Response:
        file = self._file(request)
        return await self._picture(f"poster\0{file}", lambda target: write_poster(file, target))

    async def picture(self, request: Request) -> Response:
        """Serve an image that browsers do not show as JPEG."""
        file = self._file(request)
        return await self._picture(f"picture\0{file}", lambda target: write_poster(file, target, PICTURE_SIDE))

    async def frames(self, request: Request) -> Response:
        item = request.path_params["item"]
        detail = await to_thread.run_sync(self._console.details.read, item)
        number = first_video(detail.media) if detail else None
        file = self._console.details.media_file(item, number) if number is not None else None
        if detail is None or file is None or not detail.frame_times:
            raise HTTPException(404, "There are no frames of this document.")
        times = sorted(detail.frame_times[:SHEET_FRAMES])
        return await self._picture(f"frames\0{item}\0{file}", lambda target: write_frame_sheet(file, times, target))

    def preview(self, request: Request) -> Response:
        url = media_url(request.path_params["item"], request.path_params["number"], "preview/file")
        return _json(self._console.previews.ask(self._file(request), url))

    def preview_file(self, request: Request) -> Response:
        converted = self._console.previews.file(self._file(request))
        if converted is None:
            raise HTTPException(404, "The video is not converted.")
        return FileResponse(converted, media_type="video/mp4", headers=_MEDIA_HEADERS)

    def _file(self, request: Request) -> Path:
        file = self._console.details.media_file(request.path_params["item"], request.path_params["number"])
        if file is None:
            raise HTTPException(404, "The file is not in the folder, or not any more.")
        return file

    async def _picture(self, key: str, make: Callable[[Path], None]) -> Response:
        self._limiter = self._limiter or CapacityLimiter(_PICTURES)
        path = await to_thread.run_sync(self._console.pictures.get, key, make, limiter=self._limiter)
        return FileResponse(path, media_type="image/jpeg", headers=_MEDIA_HEADERS)


def _page(request: Request) -> Response:
    name, content_type = PAGE[request.url.path]
    return FileResponse(STATIC / name, headers={"content-type": content_type})


def _json(model: Model) -> Response:
    return Response(model.model_dump_json(), media_type="application/json")


def _explain_status(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"message": error.detail}, error.status_code)


def _explain_failure(_: Request, error: Exception) -> Response:
    assert isinstance(error, Failure)
    return JSONResponse({"message": error.error.message}, 422)
