"""A generator runs through the same functions, queue and worker, from uploads, requests and the console."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.generation.document import GeneratorDocument
from cosmos_batch.media import VideoInfo, probe
from cosmos_batch.planning.configuration import parse_config
from tests.engines.reasoner.endpoint.conftest import Server, completion
from tests.support.deployed_app import App, running_app, text_with_nano, wait_for

NANO = "cosmos3-nano"
SMALL = {"resolution": "256p", "numFrames": 5}


def config(folder: Path, writer: str) -> Config:
    """Return a configuration with Nano beside the reasoners, on a generator that has no model."""
    return parse_config(text_with_nano(folder, promptUpsampling={"url": writer}))


@pytest.fixture(scope="module")
def writer() -> Iterator[Server]:
    """Provide a server whose model writes prompts."""
    with Server() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, writer: Server) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("app")
    with running_app(folder, config(folder, writer.url)) as running:
        yield running


def delivered(app: App, arn: str, folder: Path) -> GeneratorDocument:
    """Return the document of an execution that has succeeded, having probed its video."""
    document = GeneratorDocument.model_validate(app.document(arn))
    [name] = [file.file for file in document.files if file.role == "video"]
    directory = app.row(arn).document.removeprefix(f"s3://{app.assets}/").rpartition("/")[0]
    app.client("s3").download_file(app.assets, f"{directory}/{name}", str(folder / name))
    video = probe(folder / name)
    assert isinstance(video, VideoInfo)
    generation = document.generation
    assert (video.width, video.height, len(video.timeline.times)) == (
        generation.width,
        generation.height,
        generation.num_frames,
    )
    return document


def requested(app: App, key: str) -> list[dict[str, Any]]:
    """Return the executions that a request file started."""
    described = [
        app.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
        for execution in app.executions()
    ]
    return [
        description
        for description in described
        if json.loads(description["input"]).get("requestFile") == f"s3://{app.assets}/{key}"
    ]


def test_text_becomes_a_video(app: App, tmp_path: Path) -> None:
    output = f"s3://{app.assets}/made/"
    arn = app.start({"pipeline": NANO, "prompt": "A robot.", "output": output, "parameters": SMALL})
    ended = app.ended(arn, 120)
    assert ended["status"] == "SUCCEEDED", ended
    document = delivered(app, arn, tmp_path)
    assert (document.generation.mode, document.generation.prompt) == ("t2v", "A robot.")
    outputs = json.loads(ended["output"])["outputs"]
    assert [one["uri"].rpartition(".")[2] for one in outputs] == ["json", "mp4", "gif"]


def test_an_upsampled_prompt_is_documented_beside_the_original(app: App, writer: Server, tmp_path: Path) -> None:
    writer.answers = [completion(json.dumps({"subjects": [{"description": "A silver robot"}]}))]
    output, parameters = f"s3://{app.assets}/written/", {**SMALL, "mode": "t2v", "upsamplePrompt": True}
    arn = app.start({"pipeline": NANO, "prompt": "A robot.", "output": output, "parameters": parameters})
    assert app.ended(arn, 120)["status"] == "SUCCEEDED"
    generation = delivered(app, arn, tmp_path).generation
    assert (
        generation.given_prompt == "A robot."
        and "A silver robot" in json.loads(generation.prompt)["subjects"][0]["description"]
    )


@pytest.mark.parametrize(("name", "mode"), [("picture.png", "i2v"), ("clip.mp4", "v2v")])
def test_an_upload_with_a_prompt_becomes_a_video(
    app: App, picture: Path, clip: Path, tmp_path: Path, name: str, mode: str
) -> None:
    keys = {"cosmos3_prompt": "It falls.", "cosmos3_resolution": "256", "cosmos3_num_frames": "9"}
    app.upload(f"falls/{name}", picture if mode == "i2v" else clip, **keys)
    arn = app.execution_of(f"falls/{name}", 120)["executionArn"]
    generation = delivered(app, arn, tmp_path).generation
    assert (generation.mode, generation.prompt, generation.num_frames) == (mode, "It falls.", 9)


def test_an_uploaded_request_becomes_a_video(app: App, clip: Path, tmp_path: Path) -> None:
    app.client("s3").upload_file(str(clip), app.assets, "asked/clip.mp4")
    request = {"prompt": "It goes on.", "input": "clip.mp4", "condition_frames": [0], **SMALL}
    app.upload("asked/on.cosmos.json", json.dumps(request).encode())
    described = wait_for(lambda: requested(app, "asked/on.cosmos.json"), 180, "no execution for the request")
    arn = app.ended(described[0]["executionArn"], 120)["executionArn"]
    assert delivered(app, arn, tmp_path).generation.mode == "v2v"
