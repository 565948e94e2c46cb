"""Prompts that a model writes: asked over HTTP of a real server, which the test runs."""

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
from tests.engines.endpoint.conftest import Server, completion, data_of, error, server, waits
from tests.support.generations import settled

__all__ = ["server", "waits"]  # fixtures

WRITTEN = {"subjects": [{"description": "A robot"}], "resolution": {"H": 1, "W": 1}, "style_medium": "video"}
UPSAMPLED = {"upsample_prompt": True, "seed": 7}

Upsample = Callable[..., Generation]


def job_of(said: dict[str, Any], medium: Any = None, prompt: Any = "A robot pours water.") -> Job:
    job = make_job("a.png")
    return job.model_copy(update={"generation": settled({**UPSAMPLED, **said}, medium, prompt)})


@pytest.fixture
def upsample(server: Server, tmp_path: Path) -> Upsample:
    def upsample(job: Job, **endpoint: Any) -> Generation:
        upsampler = Upsampler(Endpoint(**{"url": server.url, "timeout_seconds": 5, **endpoint}), lambda: "the-key")
        made = asyncio.run(upsampler.upsample(job, tmp_path)).generation
        assert made is not None
        return made

    return upsample


def test_the_prompt_that_was_written_is_used_and_the_given_one_kept(server: Server, upsample: Upsample) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    made = upsample(job_of({"mode": "t2v", "resolution": "480p"}))
    assert made.given_prompt == "A robot pours water."
    assert json.loads(made.prompt) == {
        **WRITTEN,
        "resolution": {"H": 480, "W": 832},  # as it will be, whatever the model says
        "aspect_ratio": "16,9",
        "duration": "7s",
        "fps": 24.0,
    }
    assert not made.use_resolution_template and not made.use_duration_template
    [asked] = server.asked
    assert asked["messages"][1]["content"][-1] == {"type": "text", "text": "A robot pours water."}
    assert asked["seed"] == 7 and "7.9 seconds" in asked["messages"][0]["content"]
    assert server.headers[-1]["Authorization"] == "Bearer the-key"


def test_an_image_has_no_duration(server: Server, upsample: Upsample) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    found = json.loads(upsample(job_of({"mode": "t2i"})).prompt)
    assert found["resolution"] == {"H": 960, "W": 960} and not {"duration", "fps"} & found.keys()
    assert "makes images" in server.asked[0]["messages"][0]["content"]


def test_the_first_image_is_shown_as_it_will_be_seen(
    server: Server, upsample: Upsample, picture: Path, tmp_path: Path
) -> None:
    server.answers = [completion(json.dumps(WRITTEN))]
    job = job_of({"resolution": "256p"}, "image")
    place(picture, job, tmp_path)
    made = upsample(job)
    shown, said = server.asked[0]["messages"][1]["content"]
    (tmp_path / "shown.png").write_bytes(data_of(shown))
    from PIL import Image

    with Image.open(tmp_path / "shown.png") as image:
        assert {"H": image.height, "W": image.width} == json.loads(made.prompt)["resolution"]
    assert said["text"] == "A robot pours water." and made.size is None  # which is still the engine's to fit


@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Here it is: {} I hope that helps.", "<think>Hm {{.</think>{}"]
)
def test_what_a_model_puts_around_it_does_not_count(server: Server, upsample: Upsample, around: str) -> None:
    server.answers = [completion(around.replace("{}", json.dumps(WRITTEN)))]
    assert json.loads(upsample(job_of({"mode": "t2v"})).prompt)["style_medium"] == "video"


def test_one_that_writes_no_json_is_asked_once_more_and_then_fails(server: Server, upsample: Upsample) -> None:
    server.answers = [completion("No."), completion(json.dumps(WRITTEN))]
    assert upsample(job_of({"mode": "t2v"})).given_prompt
    assert [asked["seed"] for asked in server.asked] == [7, 8]
    server.answers = [completion("No."), completion("[]")]
    with pytest.raises(Failure, match=r"upsamplePrompt: .* wrote no JSON object") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert raised.value.error.code == "EngineFailed" and "Or leave it out." in raised.value.error.remedy


@pytest.mark.parametrize(
    ("answers", "code", "said"),
    [
        ([error(401)], "ModelUnavailable", "refused the API key"),
        ([error(404)], "ModelUnavailable", "does not know"),
        (["hang up"], "EngineFailed", "does not answer"),
        ([error(500)], "EngineFailed", "HTTP 500"),
        ([(200, {"choices": []})], "EngineFailed", "no chat completion"),
    ],
)
def test_a_server_that_fails_fails_the_job(
    server: Server, upsample: Upsample, answers: list[Any], code: str, said: str
) -> None:
    server.answers = answers
    with pytest.raises(Failure, match="upsamplePrompt: ") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert raised.value.error.code == code and said in raised.value.error.message
    assert "the-key" not in raised.value.error.message


def test_a_server_that_is_busy_is_waited_for_like_an_engines(server: Server, upsample: Upsample) -> None:
    server.fault = (*error(503), {"Retry-After": "600"})
    with pytest.raises(ServerUnavailable, match="upsamplePrompt: ") as raised:
        upsample(job_of({"mode": "t2v"}))
    assert (raised.value.kind, raised.value.retry_after) == ("busy", 600)
    assert "Or leave it out." in raised.value.error.remedy


def test_who_does_not_ask_for_it_is_left_alone(server: Server, upsample: Upsample) -> None:
    for job in (job_of({"mode": "t2v", "upsample_prompt": False}), job_of({"mode": "t2v"}, prompt={"fps": 24})):
        assert upsample(job) == job.generation
    assert server.asked == []
