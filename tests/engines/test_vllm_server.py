"""What the engine builds on: the real vLLM, served, with the tiny checkpoints of both architectures."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest

from cosmos_batch.demo.checkpoint import build_random_checkpoint, build_random_cosmos3
from tests.engines.vllm_server import (
    Server,
    image,
    json_schema,
    members,
    message,
    needs_vllm,
    serving,
    video,
    words,
)

pytestmark = [needs_vllm, pytest.mark.slow, pytest.mark.timeout(600)]

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["ok", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory, clip: Path, picture: Path) -> Path:
    """The folder that the server may read."""
    folder = tmp_path_factory.mktemp("allowed")
    shutil.copy(clip, folder / "clip.mp4")
    shutil.copy(picture, folder / "picture.png")
    (folder / "broken.mp4").write_text("no video")
    return folder


@pytest.fixture(scope="module", params=[build_random_checkpoint, build_random_cosmos3], ids=["reason2", "cosmos3"])
def server(request: pytest.FixtureRequest, media: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("vllm")
    with serving(request.param(folder), media, folder) as server:
        yield server


def said(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


def seen_times(server: Server, answer: httpx.Response) -> int:
    """How many pairs of frames the model saw: each is preceded by its time, such as `<0.5 seconds>`."""
    tokens = answer.json()["prompt_token_ids"]
    prompt = server.client.post("/detokenize", json={"model": "tiny", "tokens": tokens}).json()["prompt"]
    return str(prompt).count(" seconds>")


def test_text_image_and_video_are_answered(server: Server, media: Path) -> None:
    answers = [
        said(server.ask(*content, words("What happens?")))
        for content in ([], [image(media / "picture.png")], [video(media / "clip.mp4")])
    ]
    assert len(set(answers)) == 3
    assert all(answer.isascii() and len(answer.split()) > 3 for answer in answers)


def test_one_request_at_temperature_0_has_one_answer(server: Server, media: Path) -> None:
    first, again = (said(server.ask(video(media / "clip.mp4"), words("What happens?"))) for _ in range(2))
    assert first == again


@pytest.mark.parametrize(("fps", "pairs"), [(1, 2), (2, 4), (4, 8), (6, 12)])
def test_fps_decides_how_many_frames_are_seen(server: Server, media: Path, fps: float, pairs: int) -> None:
    """Both are needed: the loader samples by the first, and the processor again by the second if all were kept."""
    rates = {"media_io_kwargs": {"video": {"fps": fps}}, "mm_processor_kwargs": {"fps": fps}}
    answer = server.ask(video(media / "clip.mp4"), words("What?"), return_token_ids=True, **rates)
    assert seen_times(server, answer) == pairs


def test_a_schema_is_obeyed(server: Server, media: Path) -> None:
    asked = {"response_format": json_schema(SCHEMA), "max_tokens": 64}
    answer = json.loads(said(server.ask(video(media / "clip.mp4"), words("Good?"), **asked)))
    assert isinstance(answer["ok"], bool)
    assert 0 <= answer["count"] <= 9


def test_a_schema_that_is_none_is_refused(server: Server) -> None:
    answer = server.ask(words("Good?"), response_format=json_schema({"type": "banana"}))
    assert answer.status_code == 400
    assert "Invalid type: banana" in message(answer)


def test_a_broken_video_is_refused(server: Server, media: Path) -> None:
    answer = server.ask(video(media / "broken.mp4"), words("What?"))
    assert answer.status_code == 400
    assert "Could not open video stream" in message(answer)


def test_a_file_elsewhere_is_refused(server: Server, clip: Path) -> None:
    answer = server.ask(video(clip), words("What?"))
    assert answer.status_code == 400
    assert "--allowed-local-media-path" in message(answer)


def test_a_prompt_that_fills_the_context_is_refused(server: Server) -> None:
    answer = server.ask(words("zebra " * 3000))
    assert answer.status_code == 400
    assert "maximum context length is 2048 tokens" in message(answer)


def test_the_log_names_the_architecture_and_no_prompt(server: Server) -> None:
    said(server.ask(words("a zebra in the log?")))
    log = server.log.read_text()
    assert "Resolved architecture:" in log
    assert "zebra" not in log


def test_a_server_whose_engine_died_ends(server: Server) -> None:
    """The last test here: both servers end in it."""
    engine = next(one for one in members(server.process.pid) if "EngineCore" in _command(one))
    os.kill(engine, signal.SIGKILL)
    assert server.process.wait(60) == 0
    server.stop()
    assert members(server.process.pid) == []


def _command(process: int) -> str:
    return Path(f"/proc/{process}/cmdline").read_text()
