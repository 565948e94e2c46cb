"""An S3 server that injects faults: a proxy in front of another S3 server."""

import contextlib
import http.client
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self
from urllib.parse import urlsplit

Fault = Literal["busy", "reset", "cut", "stall", "spoil"]
_CHUNK = 16 * 1024


class FaultyS3(ThreadingHTTPServer):
    """The proxy. It serves for as long as its `with` block lasts.

    Attributes:
        choose: Says from a request's number (from 1), method and path which fault it meets, if any. `busy` answers
            503, `reset` breaks the connection before the answer, `cut` in the middle of it, `stall` sends half of it
            and the rest when `go_on` is set, `spoil` changes one byte.
        before: Called with the path and the Range of each GET before it is answered.
        bytes_per_second: The speed of one connection; None sends as fast as possible.
        faults: How many requests met a fault.
        requests: Method, path and Range of each request, in the order in which they came.
        most_at_once: How many GETs were under way at most.
    """

    daemon_threads = True

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = urlsplit(upstream)
        self.choose: Callable[[int, str, str], Fault | None] = lambda _number, _method, _path: None
        self.before: Callable[[str, str], None] = lambda _path, _range: None
        self.bytes_per_second: float | None = None
        self.go_on = threading.Event()
        self.stalled = threading.Event()
        self.faults = 0
        self.requests: list[tuple[str, str, str]] = []
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """Ignore errors of connections, for the tests make clients give up."""

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyS3

    def log_message(self, *_: Any) -> None:
        """Log nothing; tests read the counters."""

    def _pass_on(self) -> None:
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with server.lock:
            server.requests.append((self.command, self.path, self.headers.get("Range", "")))
            fault = server.choose(len(server.requests), self.command, self.path)
            server.faults += fault is not None
            server.at_once += self.command == "GET"
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            if self.command == "GET":
                server.before(self.path, self.headers.get("Range", ""))
            self._answer(fault, *self._ask_upstream(body))
        finally:
            with server.lock:
                server.at_once -= self.command == "GET"

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 - http.server's names

    def _ask_upstream(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.upstream.hostname or "", self.server.upstream.port)
        with contextlib.closing(connection):
            headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()

    def _answer(self, fault: Fault | None, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        if fault == "reset":
            self._hang_up()
            return
        if fault == "busy":
            status, headers, body = 503, [], b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
        if fault == "spoil":
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "server", "date"):
                self.send_header(name, value)
        length = next((value for name, value in headers if name.lower() == "content-length"), "0")
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if fault in ("cut", "stall"):
            self._send(body[: len(body) // 2])
            body = body[len(body) // 2 :]
        if fault == "cut":
            self._hang_up()
            return
        if fault == "stall":
            self.server.stalled.set()
            self.server.go_on.wait()
        self._send(body)

    def _send(self, body: bytes) -> None:
        for start in range(0, len(body), _CHUNK):
            chunk = body[start : start + _CHUNK]
            if self.server.bytes_per_second is not None:
                time.sleep(len(chunk) / self.server.bytes_per_second)
            self.wfile.write(chunk)
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
