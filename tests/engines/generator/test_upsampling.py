"""Prompt upsampling over HTTP, with a server that the test runs."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.generator.upsampling import Upsampler
from tests.engines.conftest import make_job, place
from tests.engines.reasoner.endpoint.conftest import Server, completion, data_of, error, server, waits
from tests.support.generations import settled

__all__ = ["server", "waits"]  # fixtures

WRITTEN = {"subjects": [{"description": "A robot"}], "resolution": {"H": 1, "W": 1}, "style_medium": "video"}
UPSAMPLED = {"upsample_prompt": True, "seed": 7}

Upsample = Callable[..., Generation]


def job_of(parameters: dict[str, Any], medium: Any = None, prompt: Any = "A robot pours water.") -> Job:
    job = make_job("a.png")
    return job.model_copy(update={"generation": settled({**UPSAMPLED, **parameters}, medium, prompt)})


@pytest.fixture
def upsample(server: Server, tmp_path: Path) -> Upsample:
    def upsample(job: Job, **endpoint: Any) -> Generation:
        upsampler = Upsampler(Endpoint(**{"url": server.url, "timeout_seconds": 5, **endpoint}), lambda: "the-key")
        result = asyncio.run(upsampler.upsample(job, tmp_path)).generation
        assert result is not None
        return result

    return upsample


def test_written_prompt_is_used_and_original_prompt_kept(server: Server, upsample: Upsample) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    result = upsample(job_of({"mode": "t2v", "resolution": "480p"}))
    assert result.given_prompt == "A robot pours water."
    assert json.loads(result.prompt) == {
        **WRITTEN,
        "resolution": {"H": 480, "W": 832},  # from the job's parameters, whatever the model writes
        "aspect_ratio": "16,9",
        "duration": "7s",
        "fps": 24.0,
    }
    assert not result.use_resolution_template and not result.use_duration_template
    [sent] = server.requests
    assert sent["messages"][1]["content"][-1] == {"type": "text", "text": "A robot pours water."}
    assert sent["seed"] == 7 and "7.9 seconds" in sent["messages"][0]["content"]
    assert server.headers[-1]["Authorization"] == "Bearer the-key"


def test_prompt_of_an_image_has_no_duration(server: Server, upsample: Upsample) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    prompt = json.loads(upsample(job_of({"mode": "t2i"})).prompt)
    assert prompt["resolution"] == {"H": 960, "W": 960} and not {"duration", "fps"} & prompt.keys()
    assert "makes images" in server.requests[0]["messages"][0]["content"]


def test_model_sees_the_input_image_at_the_outputs_size(
    server: Server, upsample: Upsample, picture: Path, tmp_path: Path
) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    job = job_of({"resolution": "256p"}, "image")
    place(picture, job, tmp_path)
    result = upsample(job)
    shown, parameters = server.requests[0]["messages"][1]["content"]
    (tmp_path / "shown.png").write_bytes(data_of(shown))
    from PIL import Image

    with Image.open(tmp_path / "shown.png") as image:
        assert {"H": image.height, "W": image.width} == json.loads(result.prompt)["resolution"]
    assert parameters["text"] == "A robot pours water." and result.size is None  # the engine fits the size later


@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Here it is: {} I hope that helps.", "<think>Hm {{.</think>{}"]
)
def test_text_around_the_json_object_is_ignored(server: Server, upsample: Upsample, around: str) -> None:
    server.answers = [completion(around.replace("{}", json.dumps(WRITTEN)))]
    assert json.loads(upsample(job_of({"mode": "t2v"})).prompt)["style_medium"] == "video"


def test_answer_without_json_is_requested_once_more_and_then_fails(server: Server, upsample: Upsample) -> None:
    server.answers = [completion("No."), completion(json.dumps(WRITTEN))]
    assert upsample(job_of({"mode": "t2v"})).given_prompt
    assert [sent["seed"] for sent in server.requests] == [7, 8]
    server.answers = [completion("No."), completion("[]")]
    with pytest.raises(Failure, match=r"upsamplePrompt: .* wrote no JSON object") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert raised.value.error.code == "EngineFailed" and "Or leave it out." in raised.value.error.remedy


@pytest.mark.parametrize(
    ("answers", "code", "parameters"),
    [
        ([error(401)], "ModelUnavailable", "refused the API key"),
        ([error(404)], "ModelUnavailable", "does not know"),
        (["hang up"], "EngineFailed", "does not answer"),
        ([error(500)], "EngineFailed", "HTTP 500"),
        ([(200, {"choices": []})], "EngineFailed", "did not answer with a chat completion"),
    ],
)
def test_failed_server_fails_the_job(
    server: Server, upsample: Upsample, answers: list[Any], code: str, parameters: str
) -> None:
    server.answers = answers
    with pytest.raises(Failure, match="upsamplePrompt: ") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert raised.value.error.code == code and parameters in raised.value.error.message
    assert "the-key" not in raised.value.error.message


def test_busy_server_raises_server_unavailable(server: Server, upsample: Upsample) -> None:
    server.fault = (*error(503), {"Retry-After": "600"})
    with pytest.raises(ServerUnavailable, match="upsamplePrompt: ") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert (raised.value.kind, raised.value.retry_after) == ("busy", 600)
    assert "Or leave it out." in raised.value.error.remedy


def test_job_without_upsampling_or_with_json_prompt_stays_unchanged(server: Server, upsample: Upsample) -> None:
    for job in (job_of({"mode": "t2v", "upsample_prompt": False}), job_of({"mode": "t2v"}, prompt={"fps": 24})):
        assert upsample(job) == job.generation
    assert server.requests == []
