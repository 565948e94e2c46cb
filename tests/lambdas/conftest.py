"""Fixtures: a new cloud for each test, and functions without cached clients and settings."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.contract.environment import Environment
from lambdas import clients
from lambdas.handlers import (
    close_queue,
    collect,
    dead_letter,
    feed,
    finish_run,
    plan,
    prepare_run,
    report,
    scale,
    upload,
    vams,
)
from tests.lambdas.cloud import Cloud, ResponseUrl
from tests.support.moto_dynamodb import patch_dynamodb

FUNCTIONS = (close_queue, collect, dead_letter, feed, finish_run, plan, prepare_run, report, scale, upload, vams)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    patch_dynamodb(monkeypatch)
    with mock_aws():
        cloud = Cloud()
        monkeypatch.setattr(boto3, "client", cloud.client)
        environments = [function.environment for function in FUNCTIONS]
        for cached in (clients.cached_client, clients.state_table, plan.enabled_queues, feed.pipelines, *environments):
            cached.cache_clear()
        yield cloud


@pytest.fixture
def configure(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the environment variables of one function: `configure(UploadEnvironment, grace_seconds=0)`."""

    def _configure(kind: type[Environment], **settings: Any) -> None:
        [environment] = [one for one in cloud.environments(**settings) if isinstance(one, kind)]
        for name, value in environment.variables().items():
            monkeypatch.setenv(name, value)

    return _configure


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Return a function that returns what the functions have logged since its last call."""
    return lambda: capsys.readouterr().out


@pytest.fixture
def cloudformation() -> Iterator[ResponseUrl]:
    """Yield a ResponseURL, and the list of the answers that were put to it."""
    answers: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            assert self.headers["Content-Type"] == ""  # CloudFormation signs the URL without one
            length = int(self.headers["Content-Length"])
            assert length <= 4096, "CloudFormation refuses a longer answer"
            answers.append(json.loads(self.rfile.read(length)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield ResponseUrl(f"http://127.0.0.1:{server.server_port}/signed?a=b", answers)
        server.shutdown()
