"""A server that is somebody else's: what it is asked, and what its faults mean. This one does what it is told."""

import asyncio
import base64
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import av
import pytest
from PIL import Image
from pydantic import ValidationError

from cosmos_batch.contract import Answer, Failure
from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.engines.reasoner.endpoint import ITS_OWN_RATE, EndpointEngine
from cosmos_batch.engines.serving import remote
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
    """Answers with what lies in `answers`, in turn, and then with a completion."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.models: tuple[int, Any] = (200, {"data": [{"id": MODEL, "max_model_len": 4096}]})
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: Any) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        assert self.path == "/v1/models"
        self.server.headers.append(self.headers)
        self._send(*self.server.models)

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        self.server.headers.append(self.headers)
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = self.server.answers.pop(0) if self.server.answers else completion()
        if answer == "hang up":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif answer == "sleep":
            time.sleep(5)
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
    """A hundred times as fast."""
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(remote, "LONGEST_WAIT", 0.02)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def keys() -> list[str | None]:
    """What the secret holds, in turn; the last one stays."""
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
    """Ask about files; with `changes` to the endpoint."""

    def ask(*sources: Path, changes: dict[str, Any] | None = None, **parameters: Any) -> Answer:
        job = make_job(sources[0].name, more=[one.name for one in sources[1:]], **parameters)
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


def test_files_travel_in_the_request_as_the_model_is_to_see_them(
    server: Server, ask: Callable[..., Answer], clip: Path, picture: Path
) -> None:
    answer = ask(picture, clip, fps=2, start=1, end=3)
    assert answer.text == "A robot." and answer.usage.prompt_tokens == 9
    [asked] = server.asked
    image, video, question = asked["messages"][1]["content"]
    assert question == {"type": "text", "text": "What happens?"}
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    assert Image.open(io.BytesIO(data_of(image))).size == (320, 256)
    assert video["video_url"]["url"].startswith("data:video/mp4;base64,")
    with av.open(io.BytesIO(data_of(video))) as container:
        times = [frame.time for frame in container.decode(video=0)]
    assert len(times) == 4, "two seconds, two frames in each, and nothing of the rest of the file"
    assert times[-1] == pytest.approx(2, abs=0.2), "at their own rate"
    assert asked["model"] == MODEL
    assert asked["media_io_kwargs"]["video"]["num_frames"] == -1
    assert (asked["seed"], asked["temperature"]) == (3407, 0.7)
    assert "For the model, 1 s of a video were its beginning, 0 s." in answer.notes


def test_a_server_that_takes_no_settings_is_asked_without_them_from_then_on(
    server: Server, load: Callable[..., EndpointEngine], clip: Path, picture: Path, tmp_path: Path
) -> None:
    refusal = "Per-request media_io_kwargs are disabled by default because"
    server.answers = [error(400, refusal)]
    engine = load()
    answers = []
    for number, source in enumerate((clip, clip, picture)):
        job = make_job(source.name)
        place(source, job, tmp_path / str(number))
        answers.append(asyncio.run(engine.run(job, tmp_path / str(number))))
    assert [ITS_OWN_RATE in answer.notes for answer in answers] == [True, True, False]
    assert ["media_io_kwargs" in asked for asked in server.asked] == [True, False, False, False]


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "Grammar error: unimplemented keys"),
        error(400, "'response_format' of type 'json_schema' is not supported by this model"),
        (422, {"detail": [{"loc": ["body", "response_format"], "msg": "extra fields not permitted"}]}),
    ],
)
def test_an_answer_that_cannot_be_held_to_its_schema_is_left_free(
    server: Server, ask: Callable[..., Answer], picture: Path, refusal: Any
) -> None:
    server.answers = [refusal]
    answer = ask(picture, jsonSchema={"type": "object"})
    assert answer.text == "A robot." and any("not held to the schema" in line for line in answer.logs)
    assert ["response_format" in asked for asked in server.asked] == [True, False]


def test_a_schema_that_no_answer_fits_is_not_asked_without(
    server: Server, ask: Callable[..., Answer], picture: Path
) -> None:
    server.answers = [error(400, "Grammar error: Unsatisfiable schema")]
    with pytest.raises(Failure, match="No answer can fit"):
        ask(picture, jsonSchema={"type": "object"})


def test_fields_that_the_server_does_not_know_are_left_out_from_then_on(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    server.answers = [
        error(400, "Unrecognized request argument supplied: top_k"),
        (422, {"detail": [{"loc": ["body", "repetition_penalty"], "msg": "extra fields not permitted"}]}),
    ]
    engine = load()
    job = make_job(picture.name)
    place(picture, job, tmp_path)
    answers = [asyncio.run(engine.run(job, tmp_path)) for _ in range(2)]
    for answer in answers:
        assert [name for name in ("top_k", "repetition_penalty") if any(name in note for note in answer.notes)] == [
            "top_k",
            "repetition_penalty",
        ]
    assert [("top_k" in one, "repetition_penalty" in one) for one in server.asked] == [
        (True, True),
        (False, True),
        (False, False),
        (False, False),
    ]
    assert all("temperature" in one for one in server.asked)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_that_the_server_parts_is_kept(
    server: Server, ask: Callable[..., Answer], picture: Path, name: str
) -> None:
    server.answers = [completion("Yes.", **{name: "It is red."})]
    answer = ask(picture)
    assert (answer.text, answer.reasoning) == ("Yes.", "It is red.")


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


def test_the_context_is_what_the_server_says_or_what_is_configured(
    server: Server, load: Callable[..., EndpointEngine]
) -> None:
    assert load()._reader.context == 4096
    server.models = (200, {"data": [{"id": MODEL}]})
    assert load()._reader.context == 16_384
    engine = load(context=2048)
    assert f"serves {MODEL}; context of 2,048 tokens" in engine.startup_logs[-1]


@pytest.mark.parametrize(
    ("models", "wanted", "said"),
    [
        ((200, {"data": [{"id": "a"}, {"id": "b"}]}), None, "has 2 models; there: a, b."),
        ((200, {"data": [{"id": "a"}]}), "c", "has no model 'c'; there: a."),
        ((200, {"data": []}), None, "has 0 models; there: none."),
        ((200, {"hello": 1}), None, "gives no list"),
        ((200, "<html>"), None, "gives no list"),
        (error(404), None, "does not know what was asked"),
        (error(401), None, "wants an API key"),
    ],
)
def test_a_server_without_the_model_is_refused_at_the_start(
    server: Server, load: Callable[..., EndpointEngine], models: tuple[int, Any], wanted: str | None, said: str
) -> None:
    server.models = models
    with pytest.raises(Failure) as raised:
        load(model=wanted)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", False)
    assert said in raised.value.error.message


def test_one_of_several_models_is_chosen_by_its_name(server: Server, load: Callable[..., EndpointEngine]) -> None:
    server.models = (200, {"data": [{"id": "a"}, {"id": "b"}]})
    assert load(model="b")._model == "b"


def test_a_starting_server_is_waited_for(server: Server, load: Callable[..., EndpointEngine]) -> None:
    server.models = error(503)
    threading.Timer(0.03, lambda: setattr(server, "models", (200, {"data": [{"id": "late"}]}))).start()
    assert load()._model == "late"


def test_closing_it_closes_its_connections(
    load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    monkeypatch.setattr(Handler, "protocol_version", "HTTP/1.1")  # which keeps a connection for the next request
    monkeypatch.setattr(Handler, "finish", lambda _: ended.set())
    job = make_job(picture.name)
    place(picture, job, tmp_path)
    engine = load()
    assert ended.wait(10), "that of the list of models"
    ended.clear()

    async def ask_and_close() -> bool:
        await engine.run(job, tmp_path)
        assert not ended.is_set()
        engine.close()
        return await asyncio.to_thread(ended.wait, 10)

    assert asyncio.run(ask_and_close())


def test_cancelling_ends_the_request(
    server: Server, load: Callable[..., EndpointEngine], picture: Path, tmp_path: Path
) -> None:
    engine, job = load(), make_job(picture.name)
    place(picture, job, tmp_path)
    server.answers = ["sleep"]

    async def cancelled() -> None:
        task = asyncio.create_task(engine.run(job, tmp_path))
        while not server.asked:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


ARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:nim-AbCdEf"
KEY_ARN = "arn:aws:kms:eu-west-1:123456789012:key/12345678-1234-1234-1234-123456789012"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "ftp://host/v1"}, "must begin with http"),
        ({"url": "https://"}, "name a host"),
        ({"url": "https://user:password@host/v1"}, "must not hold"),
        ({"url": "https://host/v1?key=1"}, "must not hold"),
        ({"url": "http://10.0.0.1:8000/v1", "apiKeySecretArn": ARN}, "use https"),
        (
            {"apiKeySecretKeyArn": KEY_ARN},
            "give apiKeySecretArn too",
        ),
        ({"apiKeySecretArn": "nvapi-secret"}, "apiKeySecretArn"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_an_endpoint_that_makes_no_sense_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Endpoint.model_validate({"url": "https://host/v1", **changes})


def test_an_endpoint_that_makes_sense() -> None:
    assert Endpoint(url="https://integrate.api.nvidia.com/v1/", api_key_secret_arn=ARN).url.endswith("/v1")
    assert Endpoint(url="http://127.0.0.1:8000/v1", api_key_secret_arn=ARN)
