"""Requests and answers in JSON, and media files of which a player asks for ranges."""

import re
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from cosmos_batch.console.collection import MediaFile
from cosmos_batch.console.folder import LocalMedia
from cosmos_batch.console.guard import MEDIA_POLICY
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import explain

# A URL has only numbers: at the same port, it may have been that of another folder's file. The browser asks each time.
MEDIA_HEADERS = {"content-security-policy": MEDIA_POLICY, "cache-control": "private, no-cache"}
_BODY_LIMIT = 16 << 20  # bytes of a request

Body = TypeVar("Body", bound=Model)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def json_response(model: Model) -> Response:
    """Return a model as JSON."""
    return Response(model.model_dump_json(), media_type="application/json")


def file_response(path: Path, content_type: str, request_headers: Headers) -> Response:
    """Return a file of this machine, or the part of it that is asked for; only status 304 if the browser has it."""
    response = FileResponse(path, media_type=content_type, headers=MEDIA_HEADERS, stat_result=path.stat())
    etag = response.headers["etag"]
    if request_headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={**MEDIA_HEADERS, "etag": etag})
    return response


def media_response(media: MediaFile, content_type: str, request_headers: Headers) -> Response:
    """Return a media file, or the part of it that a player asks for; only that part is read."""
    if isinstance(media, LocalMedia):
        return file_response(media.path, content_type, request_headers)
    size = media.size
    requested = _RANGE.fullmatch(request_headers.get("range", ""))
    if requested is None:
        headers = {**MEDIA_HEADERS, "accept-ranges": "bytes", "content-length": str(size)}
        return StreamingResponse(media.part(0, size), media_type=content_type, headers=headers)
    first, last = requested.groups()
    start = int(first) if first else max(0, size - int(last or 0))
    end = min(size, int(last) + 1) if first and last else size
    if start >= end:
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    headers = {
        **MEDIA_HEADERS,
        "accept-ranges": "bytes",
        "content-length": str(end - start),
        "content-range": f"bytes {start}-{end - 1}/{size}",
    }
    return StreamingResponse(media.part(start, end), 206, headers, content_type)


async def read_body(request: Request, model: type[Body]) -> Body:
    """Return the JSON that the page has sent. Raises HTTPException where it is too long or wrong."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_LIMIT:
            raise HTTPException(413, "The request is too long.")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise HTTPException(400, explain(error)) from error
