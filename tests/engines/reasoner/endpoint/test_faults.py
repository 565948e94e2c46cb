"""The reasoner with a user's server that is busy, unreachable or slow, or refuses its key."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.journal import Journal
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from cosmos_batch.engines.serving import outages, remote_server
from tests.engines.conftest import make_job, place
from tests.engines.reasoner.endpoint.conftest import KEY, Server, error, failure, filtered


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_to_a_busy_server_is_sent_again(
    server: Server, ask: Callable[..., Answer], picture: Path, status: int
) -> None:
    server.answers = [error(status)] * 3
    answer = ask(picture)
    assert answer.text == "A robot." and len(server.requests) == 4
    assert sum(f"is busy (HTTP {status})" in line for line in answer.logs) == 3


def away(ask: Callable[..., Answer], *sources: Path, **parameters: Any) -> ServerUnavailable:
    failed = failure(ask, *sources, **parameters)
    assert isinstance(failed, ServerUnavailable) and failed.error.retryable
    return failed


def test_a_server_that_stays_busy_is_unavailable(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.fault = error(429, "rate limit")
    busy = away(ask, picture)
    assert (busy.kind, busy.retry_after, len(server.requests)) == ("busy", None, remote_server.TRIES)
    assert "rate limit" in busy.error.message and "concurrency" in busy.error.remedy


def test_a_long_retry_after_is_not_waited_for_in_the_worker(
    server: Server, ask: Callable[..., Answer], picture: Path
) -> None:
    server.fault = (*error(429), {"Retry-After": "600"})
    busy = away(ask, picture)
    assert (busy.kind, busy.retry_after, len(server.requests)) == ("busy", 600, 1)


@pytest.mark.parametrize("status", [408, 502, 504, 520, 524])
def test_a_proxys_error_means_that_the_server_may_have_begun(
    server: Server, ask: Callable[..., Answer], picture: Path, status: int
) -> None:
    server.fault = error(status)
    assert away(ask, picture).kind == "interrupted" and len(server.requests) == 1


@pytest.mark.parametrize("status", [521, 522, 523, 530])
def test_a_proxy_that_cannot_connect_means_that_the_server_has_not_begun(
    server: Server, ask: Callable[..., Answer], picture: Path, status: int
) -> None:
    server.answers = [error(status)] * 2
    assert ask(picture).text == "A robot." and len(server.requests) == 3
    server.fault = error(status)
    assert away(ask, picture).kind == "away"


def test_a_server_that_was_unreachable_is_probed_before_it_is_sent_a_job(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(), make_job(picture.name)
    place(picture, job, tmp_path)
    models = server.models

    async def outage() -> None:
        server.fault = "hang up"
        with pytest.raises(ServerUnavailable) as raised:
            await engine.run(job, tmp_path)
        assert raised.value.kind == "interrupted" and len(server.requests) == 1
        for status in (408, 500, 502, 522):
            server.models = error(status)
            with pytest.raises(ServerUnavailable) as raised:
                await engine.run(job, tmp_path)
            assert raised.value.kind == "away" and len(server.requests) == 1
            assert not await engine.is_available()
        server.fault, server.models = None, models
        assert await engine.is_available()
        assert (await engine.run(job, tmp_path)).text == "A robot."

    asyncio.run(outage())


def test_polling_for_started_work_is_retried_as_often_as_a_busy_server(
    server: Server, load: Callable[..., EndpointEngine]
) -> None:
    """A generation may have taken an hour already, even if another job was just refused a connection."""
    remote_server = load()._server
    assert remote_server is not None
    looks: list[int] = []

    def back_at_the_fourth() -> tuple[int, Any]:
        looks.append(1)
        return error(502) if len(looks) < 4 else (200, {"data": []})

    async def story() -> int:
        server.fault, server.models = "hang up", back_at_the_fourth
        with pytest.raises(ServerUnavailable):
            await remote_server.send(Journal(), "POST", "chat/completions", json={})
        return (await remote_server.send(Journal(), "GET", "models")).status_code

    assert (asyncio.run(story()), len(looks)) == (200, 4)


def test_if_no_request_is_answered_no_job_counts_as_the_cause(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(timeout_seconds=1), make_job(picture.name)
    place(picture, job, tmp_path)
    server.fault = "sleep"

    async def ask(times: int) -> list[Any]:
        return await asyncio.gather(*(engine.run(job, tmp_path) for _ in range(times)), return_exceptions=True)

    assert [failed.kind for failed in asyncio.run(ask(3))] == ["hung"] * 3


@pytest.mark.parametrize(
    ("header", "expected"), [("7", 7), ("0", 0), ("100000", 100_000), ("soon", None), (None, None)]
)
def test_retry_after_is_read_as_seconds(header: str | None, expected: float | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    assert outages.retry_after(httpx2.Response(429, headers=headers)) == expected


def test_retry_after_is_read_as_a_date() -> None:
    def asked(date: str) -> float | None:
        return outages.retry_after(httpx2.Response(429, headers={"retry-after": date}))

    later = asked(format_datetime(datetime.now(UTC) + timedelta(seconds=300), usegmt=True))
    assert later is not None and 100 < later <= 300
    assert asked("Fri, 01 Jan 2010 00:00:00 GMT") == 0


def test_waits_grow_to_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "FIRST_WAIT", 1.0)
    monkeypatch.setattr(outages, "LONGEST_WAIT", 60.0)
    for attempt, longest in ((0, 1), (3, 8), (20, 60)):
        assert longest / 2 <= outages.wait_before_retry(attempt) <= longest
    assert outages.wait_before_retry(3, 7) == 7


def test_the_key_is_sent_and_appears_in_no_message(
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


def test_a_replaced_key_is_read_again(
    server: Server, ask: Callable[..., Answer], keys: list[str | None], picture: Path
) -> None:
    keys[:] = ["old", "new"]
    server.answers = [error(401)]
    assert ask(picture).text == "A robot."
    assert [headers["Authorization"] for headers in server.headers] == ["Bearer old"] * 2 + ["Bearer new"]


@pytest.mark.parametrize("odd", [f'{{\n "apiKey": "{KEY}"\n}}', f"{KEY}\0", f"{KEY}é", ""])
@pytest.mark.parametrize("replaced", [False, True], ids=["at the start", "replaced"])
def test_an_invalid_key_is_not_quoted(
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
    ("answer", "code", "retryable", "message"),
    [
        (error(404, "The model `x` does not exist."), "ModelUnavailable", False, "The model `x` does not exist"),
        (error(400, "This model's maximum context length is 10"), "InvalidInput", False, "do not fit"),
        (error(400, "unknown field"), "EngineFailed", False, "unknown field"),
        (error(400, "At most 1 image(s) may be provided in one prompt."), "InvalidInput", False, "fewer files"),
        ((413, "<html>413 Request Entity Too Large</html>"), "InvalidInput", False, "larger than the server takes"),
        (filtered(), "Blocked", False, "filter"),
        (error(500, "worse"), "EngineFailed", True, "worse"),
        ((302, "", {"Location": "http://169.254.169.254/"}), "ModelUnavailable", False, "redirects to another address"),
        ((200, "<html>Welcome</html>"), "EngineFailed", True, "did not answer with a chat completion"),
        ((200, {"choices": []}), "EngineFailed", True, "did not answer with a chat completion"),
        ((200, []), "EngineFailed", True, "did not answer with a chat completion"),
        ("hang up", "EngineFailed", True, "does not answer"),
    ],
)
def test_each_error_has_its_code_message_and_remedy(
    server: Server, ask: Callable[..., Answer], picture: Path, answer: Any, code: str, retryable: bool, message: str
) -> None:
    server.answers = [answer]
    failed = failure(ask, picture).error
    assert (failed.code, failed.retryable) == (code, retryable)
    assert message in failed.message
    assert len(server.requests) == 1, "what may have been its death is not sent again at once"


def test_a_server_that_takes_too_long_is_unavailable(server: Server, ask: Callable[..., Answer], picture: Path) -> None:
    server.answers = ["sleep"]
    slow = away(ask, picture, changes={"timeout_seconds": 1})
    assert slow.kind == "interrupted", "nobody else was asked: the job may be too long"
    assert "within 1 s" in slow.error.message and "timeoutSeconds" in slow.error.remedy


def test_a_server_that_stopped_is_unavailable_until_it_is_back(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(), make_job(picture.name)
    place(picture, job, tmp_path)
    server.shutdown()
    server.server_close()
    with pytest.raises(ServerUnavailable, match="does not answer") as raised:
        asyncio.run(engine.run(job, tmp_path))
    assert (raised.value.kind, raised.value.error.retryable) == ("away", True)
    with pytest.raises(Failure, match="does not answer"):
        load()


def certificate(folder: Path, days: int, name: str = "localhost") -> Path:
    """Write a key, and a self-signed certificate that expires after a number of days."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    until = datetime.now(UTC) + timedelta(days=days)
    built = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(until - timedelta(days=30))
        .not_valid_after(until)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = folder / "server.pem"
    path.write_bytes(private + built.public_bytes(Encoding.PEM))
    return path


@pytest.mark.parametrize(
    ("days", "name", "trusted", "kind"),
    [
        (10, "localhost", True, None),
        (10, "localhost", False, "refused"),
        (10, "other.example.com", True, "refused"),
        (-1, "localhost", True, "away"),
    ],
    ids=["good", "of nobody known", "of another", "expired"],
)
def test_an_untrusted_certificate_fails_and_an_expired_certificate_is_waited_for(
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    name: str,
    trusted: bool,
    kind: str | None,
) -> None:
    path = certificate(tmp_path, days, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
    engine = EndpointEngine(Endpoint(url=server.url.replace("http://127.0.0.1", "https://localhost")), lambda: KEY)
    if kind is None:
        engine.load(Path())
        return
    with pytest.raises(Failure, match="certificate") as raised:
        engine.load(Path())
    assert isinstance(raised.value, ServerUnavailable) is (kind == "away")
    assert raised.value.error.retryable is (kind == "away")
    assert not server.headers, "it was sent neither a request nor a key"
