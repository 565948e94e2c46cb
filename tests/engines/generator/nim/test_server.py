"""A NIM that is starting, is another server than expected, refuses, fails, or is no longer wanted."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.nim.endpoint import NimEndpointEngine
from cosmos_batch.engines.protocol import GuardrailEngine, RemoteEngine
from cosmos_batch.engines.serving import outages
from cosmos_batch.engines.serving.server import ServerFault
from tests.engines.generator.nim.conftest import IMAGE, VIDEO, Load, Make
from tests.support.generator_jobs import refused
from tests.support.nim_server import READY, STARTING, NimServer

KEY = "a-very-secret-key"
FAILING = (500, {"error": {"message": "Service is not ready", "type": "Error", "code": 500}})


def test_the_variant_is_the_name_of_the_model(load: Load, server: NimServer) -> None:
    server.variant = "super-i2v"
    engine = load()
    assert isinstance(engine, GuardrailEngine) and isinstance(engine, RemoteEngine)
    assert (engine.name, engine.remote_model) == (f"nim {server.url}", "super-i2v")
    assert engine.startup_logs[-1].endswith(f"{server.url} serves super-i2v")
    assert set(server.probes) == {"/v1/metadata", "/v1/health/ready"}, "`/v1/models` is not to be relied on"


def test_a_worker_sends_one_request_at_a_time_unless_it_is_told_otherwise(load: Load) -> None:
    assert load().concurrency == 1, "requests that wait in a NIM use up the time in which it must answer"
    assert load(concurrency=4).concurrency == 4
    assert Endpoint(url="http://10.0.1.7:8000/v1").requests_at_once == 32


def test_a_nim_is_waited_for_longer_than_it_works_on_a_request() -> None:
    nim = {"url": "http://10.0.1.7:8000/v1", "api": "nim"}
    assert Endpoint.model_validate(nim).answer_seconds == 2000
    assert Endpoint.model_validate({**nim, "timeoutSeconds": 60}).answer_seconds == 60
    assert Endpoint(url="http://10.0.1.7:8000/v1").answer_seconds == 900


def test_an_answer_may_be_a_data_url(make: Make, server: NimServer) -> None:
    server.as_data_urls = True
    assert make(IMAGE).files and make(VIDEO).files


def test_the_configured_model_must_be_the_variant(load: Load, server: NimServer) -> None:
    assert load(model="nano").remote_model == "nano"
    error = refused(load, model="super")
    assert error.code == "ModelUnavailable" and not error.retryable
    assert error.message == f"{server.url} has no model 'super'. It serves: nano."


@pytest.mark.parametrize("starting", [STARTING, FAILING])
def test_a_starting_server_is_waited_for(load: Load, server: NimServer, starting: Any) -> None:
    server.ready = [starting, starting, READY]
    assert load().remote_model == "nano"
    assert server.probes.count("/v1/health/ready") == 3


def test_a_server_that_does_not_get_ready_is_unavailable_and_asked_for_later(load: Load, server: NimServer) -> None:
    server.ready = [STARTING]
    with pytest.raises(ServerUnavailable, match="is not ready") as raised:
        load()
    assert raised.value.kind == "away" and raised.value.error.retryable
    assert server.probes.count("/v1/metadata") == 0, "what it says while the container starts is not documented"


@pytest.mark.parametrize("metadata", [STARTING, FAILING])
def test_metadata_of_a_server_that_cannot_serve_now_are_asked_for_later(
    load: Load, server: NimServer, metadata: Any
) -> None:
    server.metadata = metadata
    with pytest.raises(ServerUnavailable) as raised:
        load()
    assert raised.value.error.retryable


def test_what_is_not_found_while_a_container_starts_fails_no_job(load: Load, server: NimServer) -> None:
    server.ready = [STARTING, STARTING, READY]
    server.metadata_before_ready = (404, {"error": {"message": "Not Found"}})
    assert load().remote_model == "nano"


@pytest.mark.parametrize(
    ("metadata", "message", "remedy"),
    [
        ((404, {"error": {"message": "Not Found"}}), "does not describe a NIM of Cosmos 3", "api to 'openai'"),
        ((200, "<html>"), "does not describe a NIM of Cosmos 3", "api to 'openai'"),
        ((200, {"model_type": "reasoner"}), "is a NIM of a reasoner", "NIM_MODEL_TYPE=generator"),
        (
            (200, {"model_type": "generator"}),
            "does not say of which variant",
            "NIM_MODEL_VARIANT",
        ),
        ((200, {"model_type": "generator", "model_variant": "nano-droid"}), "answers with actions alone", "nano"),
        ((200, {"model_type": "generator", "model_variant": "edge-droid"}), "edge-droid, which answers", "nano"),
        ((403, {"error": {"message": "No"}}), "wants an API key", "secret"),
    ],
)
def test_another_server_than_a_nim_that_makes_videos_is_refused(
    load: Load, server: NimServer, metadata: Any, message: str, remedy: str
) -> None:
    server.metadata = metadata
    error = refused(load)
    assert error.code == "ModelUnavailable" and not error.retryable
    assert message in error.message and remedy in error.remedy


def test_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "FIRST_WAIT", 0.01)
    engine = NimEndpointEngine(Endpoint(url="http://127.0.0.1:9/v1", api="nim"), lambda: None)
    with pytest.raises(Failure, match="does not answer") as raised:
        engine.load(Path("/nothing"))
    assert raised.value.error.retryable


def test_availability_is_asked_of_the_health_endpoint(load: Load, server: NimServer) -> None:
    async def availability() -> list[bool]:
        engine, found = load(), []
        for answer in (READY, STARTING, FAILING, READY):
            server.ready = [answer]
            found.append(await engine.is_available())
        return found

    assert asyncio.run(availability()) == [True, False, False, True]


@pytest.mark.parametrize(
    ("variant", "fixed_steps"), [("super-t2i-4step", None), ("super-t2i", 4), ("super-t2i-8step", 4)]
)
def test_a_job_with_other_steps_than_the_variant_has_is_refused(
    make: Make, server: NimServer, variant: str, fixed_steps: int | None
) -> None:
    server.variant = variant
    error = refused(make, {"mode": "t2i", "resolution": "256p"}, fixed_steps=fixed_steps)
    assert error.code == "ModelUnavailable" and error.message.startswith(f"{variant} is ") and not server.requests


@pytest.mark.parametrize("word", ["guardrail", "policy", "unsafe", "kind"])
def test_a_request_that_guardrails_refuse_is_blocked(make: Make, word: str) -> None:
    error = refused(make, VIDEO, None, f"{word} it")
    assert error.code == "Blocked" and not error.retryable
    assert error.message == "The guardrail refused the prompt or the output; nothing was delivered."


@pytest.mark.parametrize("negative", ["", "A broken guardrail."])
def test_a_prompt_about_guardrails_of_a_road_is_not_taken_for_a_refusal_by_guardrails(
    make: Make, negative: str
) -> None:
    error = refused(make, {**VIDEO, "negative_prompt": negative}, None, "echo: a car along a guardrail")
    assert error.code == "InvalidInput" and "has no subject" in error.message


def test_a_refused_request_is_invalid_input_in_the_servers_words(make: Make) -> None:
    error = refused(make, VIDEO, None, "refuse it")
    assert error.code == "InvalidInput" and not error.retryable and error.remedy
    assert error.message == "The server refused the request: The media cannot be decoded."


def test_a_task_that_the_variant_lacks_is_invalid_input(make: Make, server: NimServer) -> None:
    server.variant = "super-t2i"
    error = refused(make, VIDEO)
    assert error.code == "InvalidInput" and "super-t2i does no text2video" in error.message


def test_memory_that_ran_out_is_not_tried_again(make: Make) -> None:
    with pytest.raises(ServerFault, match="Memory ran out on this job: CUDA out of memory") as raised:
        make(VIDEO, None, "memory")
    assert raised.value.error.code == "EngineFailed" and not raised.value.error.retryable
    assert "lower resolution" in raised.value.error.remedy


def test_another_fault_of_the_server_can_be_tried_again(make: Make, server: NimServer) -> None:
    with pytest.raises(ServerFault, match="Backend inference failed") as raised:
        make(VIDEO, None, "fail")
    assert raised.value.error.retryable and len(server.requests) == 1


def test_an_address_of_another_runtime_is_no_fault_of_the_job(make: Make, server: NimServer) -> None:
    server.faults = [(404, {"error": {"message": "The selected runtime is 'reasoner'.", "code": 404}})]
    error = refused(make, VIDEO)
    assert error.code == "ModelUnavailable" and "The selected runtime is 'reasoner'" in error.message


def test_a_busy_server_is_asked_again(make: Make, server: NimServer) -> None:
    server.faults = [(503, {"error": {"message": "busy"}}), (429, {"error": {"message": "busy"}})]
    assert make(IMAGE).files and len(server.requests) == 3


def test_a_request_that_a_proxy_broke_off_is_not_sent_again(make: Make, server: NimServer) -> None:
    server.faults = [(504, "<html>")]
    with pytest.raises(ServerUnavailable) as raised:
        make(IMAGE)
    assert raised.value.kind == "interrupted" and len(server.requests) == 1


@pytest.mark.parametrize(
    "answer", [(200, "<html>"), (200, []), (200, {"b64_video": "?"}), (200, {"b64_image": "AAAA"})]
)
def test_an_answer_without_a_video_is_an_error(make: Make, server: NimServer, answer: Any) -> None:
    server.faults = [answer]
    error = refused(make, VIDEO)
    assert (error.code, error.retryable) == ("EngineFailed", True)
    assert "holds no video" in error.message and "NIM" in error.remedy


def test_actions_of_unequal_length_are_an_error(make: Make, clip: Path) -> None:
    actions = {"domain_name": "umi", "action_chunk_size": 4, "resolution": "256p"}
    error = refused(make, {"mode": "policy", **actions}, clip, "ragged")
    assert error.code == "EngineFailed" and "cannot be read" in error.message


@pytest.mark.parametrize(("parameters", "word"), [(VIDEO, "broken"), (IMAGE, "broken"), (VIDEO, "empty")])
def test_a_file_that_is_no_picture_is_an_error(make: Make, parameters: dict[str, Any], word: str) -> None:
    assert refused(make, parameters, None, word).code == "EngineFailed"


def test_key_is_sent_and_not_quoted_in_errors(make: Make, server: NimServer) -> None:
    server.key = KEY
    assert make(IMAGE, key=KEY).files
    error = refused(make, IMAGE, key="another")
    assert error.code == "ModelUnavailable" and "refused the API key" in error.message
    assert "another" not in error.model_dump_json()
    error = refused(make, IMAGE, None, "quote", key=KEY)
    assert error.code == "InvalidInput" and "[key]" in error.message and KEY not in error.model_dump_json()


def test_cancelling_a_job_closes_its_connection(
    load: Load, server: NimServer, plan: Callable[..., Job], tmp_path: Path
) -> None:
    job = plan(IMAGE, None, "stuck")

    async def cancelled() -> None:
        task = asyncio.ensure_future(load().run(job, tmp_path))
        assert await asyncio.to_thread(server.received.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.closed.wait, 30)

    asyncio.run(cancelled())
