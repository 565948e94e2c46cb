"""The endpoint engine on a real vLLM server, which does or does not let requests set how media are read."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.result import Answer
from cosmos_batch.engines.reasoner.endpoint import SERVER_SAMPLES_FRAMES, EndpointEngine
from cosmos_batch.engines.reasoner.vllm.command import VllmPlan, serve_command, serve_environment
from cosmos_batch.engines.serving.server import Server
from tests.engines.conftest import make_job, place
from tests.engines.reasoner.test_media_input import media_in
from tests.support import media_files
from tests.support.real_vllm import needs_vllm

pytestmark = [
    needs_vllm,
    pytest.mark.timeout(600),
]
OURS = ("--uds", "--media-io-kwargs", "--allowed-local-media-path", "--chat-template")
START_SECONDS = 300


def plain_command(folder: Path, port: int, server_folder: Path, *more: str) -> list[str]:
    """Return the command without the options of our own servers."""
    words = iter(serve_command(folder, VllmPlan(context=2048, sequences=4, gpus=0), folder, server_folder))
    command = [word for word in words if word not in OURS or not next(words)]
    return [*command, "--host", "127.0.0.1", "--port", str(port), *more]


@pytest.fixture(scope="module", params=["trusting", pytest.param("plain", marks=pytest.mark.slow)])
def endpoint(request: pytest.FixtureRequest, checkpoint_dir: Path) -> Iterator[tuple[Endpoint, bool]]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    trusting = request.param == "trusting"
    more = ["--trust-request-mm-kwargs"] if trusting else []
    server = Server(
        lambda folder: plain_command(checkpoint_dir, port, folder, *more),
        lambda folder: {**serve_environment(0, None, folder), "VLLM_PLUGINS": ""},
        on_line=lambda _: None,
    )
    deadline = time.monotonic() + START_SECONDS
    try:
        while not answers(f"http://127.0.0.1:{port}/health"):
            assert server.is_running and time.monotonic() < deadline, "\n".join(server.last_lines[-20:])
            time.sleep(0.5)
        yield Endpoint(url=f"http://127.0.0.1:{port}/v1"), trusting
    finally:
        server.stop()


def answers(url: str) -> bool:
    try:
        return httpx2.get(url).is_success
    except httpx2.TransportError:
        return False


@pytest.fixture
def engine(endpoint: tuple[Endpoint, bool]) -> Iterator[EndpointEngine]:
    engine = EndpointEngine(endpoint[0], lambda: None)
    engine.load(Path())
    yield engine
    engine.close()


@pytest.fixture
def ask(engine: EndpointEngine, tmp_path: Path) -> Callable[..., Answer]:
    def ask(*sources: Path, **parameters: Any) -> Answer:
        job = make_job(sources[0].name, more=[source.name for source in sources[1:]], **{"maxTokens": 8, **parameters})
        place(sources[0], job, tmp_path, *sources[1:])
        return asyncio.run(engine.run(job, tmp_path))

    return ask


def test_clips_and_pictures_are_answered(ask: Callable[..., Answer], engine: EndpointEngine, picture: Path) -> None:
    assert "serves cosmos; context of 2,048 tokens" in engine.startup_logs[-1]
    answer = ask(picture)
    assert answer.text and answer.usage.completion_tokens == 8 and answer.notes == []


def test_an_answer_follows_its_schema(ask: Callable[..., Answer], picture: Path) -> None:
    held = {"type": "object", "properties": {"ok": {"enum": [1, 2]}}, "required": ["ok"], "additionalProperties": False}
    assert json.loads(ask(picture, jsonSchema=held, maxTokens=64).text)["ok"] in (1, 2)


def test_a_schema_that_the_server_has_no_grammar_for_is_left_out(ask: Callable[..., Answer], picture: Path) -> None:
    either = [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]
    answer = ask(picture, jsonSchema={"oneOf": either})
    assert any("not held to the schema" in line for line in answer.logs)


@pytest.mark.parametrize("fps", [1.0, 2.0, 3.5, 4.0])
def test_fps_is_kept_or_a_note_says_that_it_is_not(
    endpoint: tuple[Endpoint, bool], engine: EndpointEngine, clip: Path, tmp_path: Path, fps: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The server returns the prompt, which has one mark for each pair of frames, with its time in the clip."""
    job = make_job(clip.name, fps=fps, maxTokens=8, more=["two.mp4"])
    place(clip, job, tmp_path, media_files.video(tmp_path / "two.mp4", frames=20))
    prompts: list[list[int]] = []

    async def keeping(self: Any, *where: Any, json: dict[str, Any]) -> httpx2.Response:
        response = await send(self, *where, json={**json, "return_token_ids": True})
        if response.is_success:
            prompts.append(response.json()["prompt_token_ids"])
        return response

    send = type(engine._server).send
    monkeypatch.setattr(type(engine._server), "send", keeping)
    answer = asyncio.run(engine.run(job, tmp_path))
    url = endpoint[0].url.removesuffix("/v1")
    content = {"model": "cosmos", "tokens": prompts[-1]}
    text = httpx2.post(f"{url}/detokenize", json=content, timeout=60).json()["prompt"]
    times = [float(one) for one in re.findall(r"<(\d+\.\d) seconds>", text)]
    assert media_in(text) == ["video"] * len(times)
    assert (SERVER_SAMPLES_FRAMES in answer.notes) is not endpoint[1]
    if endpoint[1]:
        seen = [max(4, int(4 * fps)), max(4, int(2 * fps))]
        assert len(times) == sum(-(-count // 2) for count in seen)
        assert times[: -(-seen[0] // 2)][-1] == pytest.approx(4 - 2 / fps / 2, abs=0.6)
