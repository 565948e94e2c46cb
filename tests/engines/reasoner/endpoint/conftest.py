"""Fixtures: a user's server that speaks OpenAI's protocol, and an engine that sends requests to it."""

import asyncio
import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from cosmos_batch.engines.serving import outages
from tests.engines.conftest import make_job, place

MODEL, KEY = "nvidia/cosmos-reason2-2b", "nvapi-very-secret"
USAGE = {"prompt_tokens": 9, "completion_tokens": 2}


def completion(text: str = "A robot.", **message: Any) -> tuple[int, Any]:
    choice = {"message": {"content": text, **message}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": USAGE}


def filtered() -> tuple[int, Any]:
    return 200, {"choices": [{"message": {"content": ""}, "finish_reason": "content_filter"}], "usage": USAGE}


def error(status: int, message: str = "no") -> tuple[int, Any]:
    return status, {"error": {"message": message}}


class Server(ThreadingHTTPServer):
    """Answers with what lies in `answers`, in turn, then with `fault` while there is one, and then with a completion.

    Where there is a barrier, `together`, a completion is given only when as many requests are under way.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.fault: Any = None
        self.together: threading.Barrier | None = None
        self.models: Any = (200, {"data": [{"id": MODEL, "max_model_len": 4096}]})
        self.answers: list[Any] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        """Suppress the server's log."""

    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        self.server.headers.append(self.headers)
        models = self.server.models
        self._send(*(models() if callable(models) else models))

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        self.server.headers.append(self.headers)
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = self.server.answers.pop(0) if self.server.answers else self.server.fault
        if callable(answer):
            answer = answer(self.server.requests[-1])
        if answer is None:
            if self.server.together is not None:
                self.server.together.wait(120)
            self._send(*completion())
        elif answer == "hang up":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif answer == "sleep":
            time.sleep(5)
            self.close_connection = True
        else:
            self._send(*answer)

    def _send(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make waits between requests a hundred times shorter."""
    monkeypatch.setattr(outages, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(outages, "LONGEST_WAIT", 0.02)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def keys() -> list[str | None]:
    """Provide the values of the API key's secret, one for each read; the last one repeats."""
    return [None]


@pytest.fixture
def load(server: Server, keys: list[str | None]) -> Iterator[Callable[..., EndpointEngine]]:
    engines = []

    def load(**changes: Any) -> EndpointEngine:
        endpoint = Endpoint(**{"url": server.url, "timeout_seconds": 30, **changes})
        engine = EndpointEngine(endpoint, lambda: keys.pop(0) if len(keys) > 1 else keys[0])
        engines.append(engine)
        engine.load(Path())
        return engine

    yield load
    for engine in engines:
        engine.close()


@pytest.fixture
def ask(load: Callable[..., EndpointEngine], tmp_path: Path) -> Callable[..., Answer]:
    """Ask about files, with `changes` to the endpoint's settings."""

    def ask(*sources: Path, changes: dict[str, Any] | None = None, **parameters: Any) -> Answer:
        job = make_job(sources[0].name, more=[source.name for source in sources[1:]], **parameters)
        place(sources[0], job, tmp_path / "job", *sources[1:])
        return asyncio.run(load(**(changes or {})).run(job, tmp_path / "job"))

    return ask


def failure(ask: Callable[..., Answer], *sources: Path, **parameters: Any) -> Failure:
    with pytest.raises(Failure) as raised:
        ask(*sources, **parameters)
    assert raised.value.error.remedy
    return raised.value


def data_of(part: dict[str, Any]) -> bytes:
    kind = part["type"]
    return base64.b64decode(part[kind]["url"].partition(";base64,")[2])
