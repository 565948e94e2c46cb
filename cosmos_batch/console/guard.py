"""Keeps everybody away but the person who started the console: other sites, other hosts, other users of the machine.

Each rule is described in docs/console.md, and tested in tests/console/test_guard.py.
"""

import json
import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_PATH = "/api/session"
_BODY_LIMIT = 1024  # bytes of a request's body
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MEDIA_POLICY = "default-src 'none'; sandbox"
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Session:
    """The secrets of one start of the console: the token of its URL, and the cookie that the page gets for it."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self._cookie_value = secrets.token_urlsafe(32)
        # Cookies know no ports: with the port in its name, two consoles do not overwrite each other's.
        self._cookie_name = f"cosmos-batch-{port}"
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def begin(self, request: Request) -> Response:
        """Exchange the token, which the page sends as JSON, for the cookie."""
        if not self._is_token(await _short_body(request)):
            return _refuse(403, "The token is wrong. Open the URL that cosmos-batch has printed.")
        response = Response(status_code=204)
        response.set_cookie(self._cookie_name, self._cookie_value, httponly=True, samesite="strict")
        return response

    def _is_token(self, body: bytes) -> bool:
        try:
            sent = json.loads(body)
        except ValueError:
            return False
        token = sent.get("token") if isinstance(sent, dict) else None
        return isinstance(token, str) and secrets.compare_digest(token.encode(errors="replace"), self.token.encode())

    def has_cookie(self, headers: Headers) -> bool:
        """Return whether a request brings the cookie."""
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        sent = cookies.get(self._cookie_name)
        return sent is not None and secrets.compare_digest(sent.value.encode(), self._cookie_value.encode())


class Guard:
    """Refuses requests that do not come from the console's own page, and adds security headers to each response."""

    def __init__(self, app: ASGIApp, session: Session) -> None:
        self._app = app
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        await (refusal or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        """Return the answer to a request that must not be passed on."""
        host = headers.get("host", "")
        if host not in self._session.hosts:
            return _refuse(403, "Open the console by the URL that cosmos-batch has printed.")
        changes = method not in ("GET", "HEAD") and path != SESSION_PATH
        if (changes or "origin" in headers) and headers.get("origin") != f"http://{host}":
            return _refuse(403, "Other sites may not ask the console.")
        if not path.startswith("/api/"):
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _refuse(403, "Other sites may not ask the console.")
        if path == SESSION_PATH and method == "POST":
            return None
        if not self._session.has_cookie(headers):
            return _refuse(401, "Open the URL that cosmos-batch has printed.")
        return None


async def _short_body(request: Request) -> bytes:
    """Return the body of a request; nothing if it is longer than a token can be."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _BODY_LIMIT:
            return b""
    return body


def _refuse(status: int, message: str) -> Response:
    return JSONResponse({"message": message}, status)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
