"""A model that is not available is reported within ten seconds, before anything is started for it."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cosmos_batch.cli import configuration, local_deployment, model_access
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.main import main
from cosmos_batch.cli.model_access import check_server
from cosmos_batch.planning.configuration import load_config
from tests.support.model_hub import Hub

MODEL = "nvidia/Cosmos-Reason2-2B"


@pytest.fixture
def clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a clip, and fail the test if a cloud is started."""
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(local_deployment, "_own_deployment", lambda *_: pytest.fail("a cloud was started"))
    (tmp_path / "clip.mp4").write_bytes(b"content")
    return tmp_path / "clip.mp4"


def test_a_hub_that_does_not_answer_ends_the_command_with_a_remedy(
    clip: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert model_access.HUB_SECONDS < 10
    monkeypatch.setattr(model_access, "HUB_SECONDS", 0.5)
    hub_may_answer = threading.Event()
    answers: list[bool] = []
    monkeypatch.setattr(
        "cosmos_batch.store.huggingface.Hub.check_access", lambda *_: answers.append(hub_may_answer.wait(120))
    )
    try:
        assert main(["run", str(clip), "--model", MODEL]) == 1
        assert answers == [], "the command did not wait for the Hub"
    finally:
        hub_may_answer.set()
    printed = capsys.readouterr().err
    assert f"does not answer within 0 s, and {MODEL} is not on this machine" in printed and "--model FOLDER" in printed


def test_a_model_that_the_hub_does_not_have_is_reported_at_once(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Hub() as hub:
        hub.direct_this_process(monkeypatch, tmp_path)
        assert main(["run", str(clip), "--model", "nvidia/No-Such-Model"]) == 1
        assert main(["generate", "--prompt", "x", "--no-guardrails", "--model", "nvidia/No-Such-Model"]) == 1
    assert capsys.readouterr().err.count("ModelUnavailable: ") == 2


def test_a_folder_needs_no_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("cosmos_batch.store.huggingface.Hub.check_access", lambda *_: pytest.fail("the Hub was asked"))
    config = load_config(configuration.CONFIG)
    pipeline = configuration.enabled_pipeline(config, None).pipeline
    path = configuration.with_entry(pipeline, {"model": str(tmp_path / "model")})
    model_access.check_access(path, configuration.enabled_pipeline(load_config(path), None))


def test_a_server_that_does_not_answer_ends_the_command_and_one_that_refuses_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(CliError, match=f"No server answers at http://127.0.0.1:{free}/v1"):
        check_server(f"http://127.0.0.1:{free}/v1")
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:  # answers each GET with 501
        threading.Thread(target=server.handle_request, daemon=True).start()
        check_server(f"http://127.0.0.1:{server.server_port}/v1")
