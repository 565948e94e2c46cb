"""What the faults of a server that is somebody else's mean."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract import Answer, Failure
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from cosmos_batch.engines.serving import remote
from tests.engines.conftest import make_job, place
from tests.engines.endpoint.conftest import KEY, Server, error, failure, filtered


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: Server, ask: Callable[..., Answer], picture: Path, status: int) -> None:
    server.answers = [error(status)] * 3
    answer = ask(picture)
    assert answer.text == "A robot." and len(server.asked) == 4
    assert sum(f"is busy (HTTP {status})" in line for line in answer.logs) == 3


def test_one_that_stays_busy_is_left_for_later(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.answers = [error(429, "rate limit")] * 50
    failed = failure(ask, picture).error
    assert (failed.code, failed.retryable, len(server.asked)) == ("EngineFailed", True, remote.TRIES)
    assert "rate limit" in failed.message and "concurrency" in failed.remedy


def test_the_wait_is_what_the_server_asks_for_within_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_WAIT", 1.0)
    monkeypatch.setattr(remote, "LONGEST_WAIT", 60.0)

    def waited(said: str | None, attempt: int = 0) -> float:
        headers = {} if said is None else {"retry-after": said}
        return remote.waiting(attempt, remote.httpx2.Response(429, headers=headers))

    assert (waited("7"), waited("0"), waited("100000")) == (7, 0, 60)
    assert 25 < waited(format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)) <= 30
    assert waited("Fri, 01 Jan 2010 00:00:00 GMT") == 0
    for attempt, longest in ((0, 1), (3, 8), (20, 60)):
        assert longest / 2 <= waited(None, attempt) <= longest
        assert longest / 2 <= waited("soon", attempt) <= longest


def test_the_key_is_sent_and_never_said(
    server: Server, ask: Callable[..., Answer], keys: list[str | None], picture: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    keys[:] = [KEY]
    answer = ask(picture)
    assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {KEY}"] * 2
    server.answers = [error(401, f"the key {KEY} has expired")]
    failed = failure(ask, picture)
    assert (failed.error.code, failed.error.retryable) == ("ModelUnavailable", False)
    assert "the key [key] has expired" in failed.error.message and "apiKeySecretArn" in failed.error.remedy
    assert KEY not in answer.model_dump_json() + str(failed) + caplog.text


def test_a_key_that_was_replaced_meanwhile_is_read_anew(
    server: Server, ask: Callable[..., Answer], keys: list[str | None], picture: Path
) -> None:
    keys[:] = ["old", "new"]
    server.answers = [error(401)]
    assert ask(picture).text == "A robot."
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer old"] * 2 + ["Bearer new"]


@pytest.mark.parametrize("odd", [f'{{\n "apiKey": "{KEY}"\n}}', f"{KEY}\0", f"{KEY}é", ""])
@pytest.mark.parametrize("replaced", [False, True], ids=["at the start", "replaced"])
def test_what_is_no_key_is_not_quoted(
    server: Server,
    ask: Callable[..., Answer],
    keys: list[str | None],
    picture: Path,
    caplog: pytest.LogCaptureFixture,
    odd: str,
    replaced: bool,
) -> None:
    caplog.set_level(logging.DEBUG)
    keys[:] = ["old", odd] if replaced else [odd]
    server.answers = [error(401)] if replaced else []
    failed = failure(ask, picture)
    assert "is no plain key" in failed.error.message and "plaintext" in failed.error.remedy
    assert KEY not in str(failed) + caplog.text


def test_without_a_key_none_is_sent(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.answers = [error(403)]
    assert "wants an API key" in failure(ask, picture).error.message
    assert not any("Authorization" in headers for headers in server.headers)


@pytest.mark.parametrize(
    ("answer", "code", "retryable", "said"),
    [
        (error(404, "The model `x` does not exist."), "ModelUnavailable", False, "The model `x` does not exist"),
        (error(400, "This model's maximum context length is 10"), "InvalidInput", False, "do not fit"),
        (error(400, "unknown field"), "EngineFailed", False, "unknown field"),
        (error(400, "At most 1 image(s) may be provided in one prompt."), "InvalidInput", False, "fewer files"),
        ((413, "<html>413 Request Entity Too Large</html>"), "InvalidInput", False, "larger than the server takes"),
        (filtered(), "Blocked", False, "filter"),
        (error(500, "worse"), "EngineFailed", True, "worse"),
        ((302, "", {"Location": "http://169.254.169.254/"}), "ModelUnavailable", False, "elsewhere"),
        ((200, "<html>Welcome</html>"), "EngineFailed", True, "no chat completion"),
        ((200, {"choices": []}), "EngineFailed", True, "no chat completion"),
        ((200, []), "EngineFailed", True, "no chat completion"),
        ("hang up", "EngineFailed", True, "does not answer"),
    ],
)
def test_faults_are_told_apart(
    server: Server, ask: Callable[..., Answer], picture: Path, answer: Any, code: str, retryable: bool, said: str
) -> None:
    server.answers = [answer]
    failed = failure(ask, picture).error
    assert (failed.code, failed.retryable) == (code, retryable)
    assert said in failed.message
    assert len(server.asked) == 1, "what may have been its death is not sent again at once"


def test_one_that_takes_too_long_is_left_for_later(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.answers = ["sleep"]
    failed = failure(ask, picture, changes={"timeout_seconds": 1}).error
    assert (failed.code, failed.retryable) == ("EngineFailed", True)
    assert "within 1 s" in failed.message and "timeoutSeconds" in failed.remedy


def test_one_that_is_gone_may_come_back(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(), make_job(picture.name)
    place(picture, job, tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(Failure) as raised:
        asyncio.run(engine.run(job, tmp_path))
    assert raised.value.error.retryable and "does not answer" in raised.value.error.message
    with pytest.raises(Failure, match="does not answer"):
        load()
