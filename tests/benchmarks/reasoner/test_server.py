"""The counters of a vLLM server are read at both ends of a pass and between, and give its steady rate."""

import asyncio
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from benchmarks.reasoner.server import ServerCounters, ServerProgress, counter

PAGE = """# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="0",model_name="cosmos"}} {tokens:.1f}
vllm:generation_tokens_created{{engine="0",model_name="cosmos"}} 1.7e9
vllm:num_preemptions_total{{engine="0",model_name="cosmos"}} {interruptions:.1f}
"""


class GrowingCounters(BaseHTTPRequestHandler):
    """Answers as a server that has made 100 tokens more, and interrupted one answer more, at each request."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        page = PAGE.format(tokens=100 * self.asked, interruptions=self.asked).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def engine() -> Iterator[Any]:
    GrowingCounters.asked = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), GrowingCounters)
    Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    address = SimpleNamespace(async_client=lambda: httpx2.AsyncClient(base_url=url))
    yield SimpleNamespace(_served=SimpleNamespace(_server=SimpleNamespace(address=address)))
    server.shutdown()
    server.server_close()


def test_counters_are_read_at_both_ends_and_between(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.reasoner.server._EVERY", 0.01)

    async def watch() -> ServerProgress:
        async with ServerProgress(engine) as progress:
            while GrowingCounters.asked < 10:
                await asyncio.sleep(0.01)
        return progress

    progress = asyncio.run(watch())
    assert progress.interruptions == GrowingCounters.asked - 1 >= 9
    assert (progress.steady_tokens_per_second() or 0) > 0


def test_a_reading_that_failed_is_no_shorter_measurement(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.reasoner.server._EVERY", 0.01)

    async def watch() -> None:
        async with ServerProgress(engine) as progress:
            monkeypatch.setattr(GrowingCounters, "do_GET", lambda handler: handler.send_error(500))
            assert progress._sampling is not None
            while not progress._sampling.done():
                await asyncio.sleep(0.01)

    with pytest.raises(httpx2.HTTPStatusError):
        asyncio.run(watch())


def test_an_error_of_the_pass_is_not_hidden_by_the_last_reading(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch() -> None:
        async with ServerProgress(engine):
            monkeypatch.setattr(GrowingCounters, "do_GET", lambda handler: handler.send_error(500))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(watch())


def progress_with(read: list[ServerCounters]) -> ServerProgress:
    """Return the progress of a pass in which these counters were read."""
    progress = ServerProgress(engine=None)
    progress._read = read
    return progress


def test_a_steady_rate_leaves_the_ends_of_a_pass_out() -> None:
    made = [0, 0, 0, 10, 110, 210, 310, 410, 910, 999, 999]  # tokens after each of ten seconds
    read = [ServerCounters(at, 0, tokens) for at, tokens in enumerate(made)]
    assert progress_with(read).steady_tokens_per_second() == pytest.approx(100)


def test_a_pass_that_is_too_short_has_no_steady_rate() -> None:
    read = [ServerCounters(0, 0, 0), ServerCounters(0.5, 0, 9)]
    assert progress_with(read).steady_tokens_per_second() is None


def test_a_counter_is_found_by_its_whole_name() -> None:
    page = PAGE.format(tokens=1234, interruptions=5)
    assert counter(page, "vllm:generation_tokens_total") == 1234
    assert counter(page, "vllm:num_preemptions_total") == 5
    with pytest.raises(ValueError):
        counter(page, "vllm:generation_tokens_seconds")
