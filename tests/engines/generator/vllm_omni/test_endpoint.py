"""The engine for a remote vLLM-Omni server: its requests and faults, with the stand-in server over HTTP."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import NOT_VERIFIED, Checks
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.vllm_omni import endpoint as vllm_omni_endpoint
from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.engines.protocol import GuardrailEngine
from cosmos_batch.engines.serving import outages
from cosmos_batch.planning.configuration import ConfigError, parse_config
from cosmos_batch.planning.deployment import EnabledPipeline, enabled_pipelines
from cosmos_batch.planning.generation.aliases import read_generation_parameters
from cosmos_batch.planning.generation.settling import settle
from tests.engines.conftest import make_job
from tests.engines.generator.vllm_omni.conftest import VIDEO
from tests.support.generations import settled
from tests.support.generator_jobs import ACTIONS, ROWS, SMALL, TABLE, check, kind_of, refused
from tests.support.vllm_omni_server import Handler

KEY = "a-very-secret-key"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve the stand-in on a port, and return its URL."""
    monkeypatch.setattr(Handler, "record", tmp_path / "asked", raising=False)
    monkeypatch.setattr(Handler, "jobs", {})
    monkeypatch.setattr(outages, "FIRST_WAIT", 0.01)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@pytest.fixture
def sent_requests(served: str, tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    return lambda: [json.loads(line) for line in (tmp_path / "asked").read_text().splitlines()]


Make = Callable[..., GeneratorOutput]


@pytest.fixture
def make(served: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(parameters: dict[str, Any], medium: Path | None = None, **options: Any) -> GeneratorOutput:
        files = GenerationFiles(medium, options.pop("controls", {}))
        monkeypatch.setattr(vllm_omni_endpoint, "generation_files", lambda *_: files)
        key = options.pop("key", None)
        job = make_job("clip.mp4").model_copy(update={"generation": settled(parameters, kind_of(medium), **options)})
        engine = OmniEndpointEngine(Endpoint(url=served), lambda: key)
        engine.load(Path("/nothing"))
        (tmp_path / "out").mkdir(exist_ok=True)
        try:
            return asyncio.run(engine.run(job, tmp_path / "out"))
        finally:
            engine.close()

    return make


def test_a_video_is_generated_with_sound(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    result = make({**VIDEO, "sound": True, "max_sequence_length": 100}, prompt="A cube. " * 600)
    check(tmp_path / "out" / "output.mp4", result.generation)
    first, deletion = sent_requests()
    assert deletion == {"path": "/v1/videos/video_gen_0", "deleted": True}
    length = json.loads(first["extra_params"])["max_sequence_length"]
    assert length > len("A cube. " * 600), "without a tokenizer, the number of bytes is the limit"
    assert "maxSequenceLength is unknown" in result.notes[0]
    other = make({**VIDEO, "max_sequence_length": 400, "negative_prompt": ""}).notes
    assert not any("maxSequenceLength" in note for note in other)


@pytest.mark.parametrize(("served_name", "fixed_steps"), [("Cosmos3-4Step", None), ("Cosmos3-8Step", 4)])
def test_a_job_with_other_steps_than_the_served_model_has_is_refused(
    served_name: str, fixed_steps: int | None, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Handler, "model", served_name)
    with pytest.raises(Failure, match=f"{served_name} is distilled to . fixed steps, and the job") as raised:
        make({"mode": "t2i", "width": 64, "height": 48}, fixed_steps=fixed_steps)
    assert raised.value.error.code == "ModelUnavailable" and not raised.value.error.retryable


def test_an_image_is_made(make: Make, tmp_path: Path) -> None:
    assert [file.role for file in make({"mode": "t2i", **SMALL}).files] == ["image"]


def test_inputs_and_actions_are_sent_in_the_request(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path
) -> None:
    make({"mode": "forward_dynamics", "action": ROWS, **ACTIONS}, clip)
    assert sent_requests()[0]["files"]["input_reference"][0] == "input.png"
    assert json.loads(sent_requests()[0]["extra_params"])["action"] == ROWS


def test_one_control_is_uploaded_and_two_are_refused(
    make: Make, sent_requests: Callable[[], list[dict[str, Any]]], clip: Path, tmp_path: Path
) -> None:
    result = make({"mode": "transfer", "controls": {"edge": {}}, **TABLE}, clip)
    check(tmp_path / "out" / "output.mp4", result.generation)
    (sent, _) = sent_requests()
    assert sent["control_type"] == "edge" and sent["files"]["control_reference"][0] == "edge.mp4"
    assert json.loads(sent["extra_params"])["edge"] == {"control_weight": 1.0}, "the server cannot read our files"
    error = refused(make, {"mode": "transfer", "controls": {"edge": {}, "blur": {}}, **TABLE}, clip)
    assert error.code == "InvalidInput" and "one control" in error.remedy and len(sent_requests()) == 2


def test_key_is_sent_and_not_quoted_in_errors(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Handler, "key", KEY)
    check(tmp_path / "out" / "output.mp4", make(VIDEO, key=KEY).generation)
    error = refused(make, VIDEO, key="another")
    assert error.code == "ModelUnavailable" and "refused the API key" in error.message
    assert "another" not in error.model_dump_json()


@pytest.mark.parametrize(("prompt", "code"), [("block it", "Blocked"), ("fail", "EngineFailed")])
def test_fault_of_the_server_fails_the_job(make: Make, prompt: str, code: str) -> None:
    assert refused(make, VIDEO, prompt=prompt).code == code


def test_server_lost_after_the_job_began_is_an_interruption(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(Handler, "_poll", lambda handler, _job: handler._answer(503, {}))
    with pytest.raises(ServerUnavailable) as raised:
        make(VIDEO)
    assert raised.value.kind == "interrupted" and raised.value.error.retryable


def test_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "FIRST_WAIT", 0.01)
    engine = OmniEndpointEngine(Endpoint(url="http://127.0.0.1:9/v1"), lambda: None)
    with pytest.raises(Failure, match="does not answer") as raised:
        engine.load(Path("/nothing"))
    assert raised.value.error.retryable and isinstance(engine, GuardrailEngine)


def test_the_guardrails_of_a_remote_server_are_documented_as_not_verified(make: Make) -> None:
    assert make({"mode": "t2i", **SMALL}, guardrails=True).checks == NOT_VERIFIED
    assert make({"mode": "t2i", **SMALL}, guardrails=False).checks == Checks()


def test_note_tells_that_steps_and_guidance_are_unconfirmed(make: Make) -> None:
    assert any("does not report the ones that it used" in note for note in make({"mode": "t2i", **SMALL}).notes)


def configured(**entry: Any) -> EnabledPipeline:
    server = {"enabled": True, "engine": "endpoint", "endpoint": {"url": "http://10.0.1.7:8000/v1"}, **entry}
    block = {"enabled": True, "modelsOmni": {"nano16B": server}}
    (enabled,) = enabled_pipelines(parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos3": block}}})))
    return enabled


def test_pipeline_on_an_endpoint_has_no_plans_and_the_limits_of_vllm_omni() -> None:
    enabled = configured(guardrails=False)
    assert (enabled.engine, enabled.image) == ("endpoint", "reasoner")
    assert enabled.endpoint is not None and enabled.endpoint.url == "http://10.0.1.7:8000/v1"
    assert enabled.serving is not None and enabled.serving.plans == {}
    assert (enabled.serving.engine, enabled.serving.guardrails) == ("vllm-omni", False)


def test_configuration_must_say_whether_an_endpoint_has_guardrails() -> None:
    with pytest.raises(ConfigError, match="a server does not report whether it was started with guardrails"):
        configured()
    checked = configured(guardrails=True)
    assert checked.serving is not None and checked.serving.guardrails
    engine = OmniEndpointEngine(Endpoint(url="http://10.0.1.7:8000/v1"), lambda: None)
    assert not engine.guardrails, "off unless configured"


def test_several_controls_are_refused_when_the_job_is_planned() -> None:
    enabled = configured(guardrails=False)
    assert enabled.serving is not None
    controls = {name: {"path": f"s3://my-bucket/{name}.mp4"} for name in ("edge", "depth")}

    def planned(*names: str) -> None:
        parameters = read_generation_parameters(
            {"mode": "transfer", "controls": {name: controls[name] for name in names}}
        )
        assert enabled.serving is not None
        settle(parameters, "A car.", enabled.pipeline, None, "job-1", enabled.serving)

    planned("edge")
    with pytest.raises(Failure, match="controls: there are 2, and the server of this pipeline accepts one upload"):
        planned("edge", "depth")
