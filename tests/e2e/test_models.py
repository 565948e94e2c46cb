"""The real engine and the model store, from a Hub to the document, through the deployed app."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cosmos_batch.demo import DEMO_REASON
from cosmos_batch.planning.configuration import parse_config
from tests.support.deployed_app import EIGHT_B, QUICK, SCRIPTED, TWO_B, App, error_of, running_app, wait_for
from tests.support.model_hub import Hub
from tests.support.vams_workflow import Vams

GREEDY_METADATA = {"COSMOS_REASON_TEMPERATURE": "0", "COSMOS_REASON_PRESENCE_PENALTY": "0"}
TWO_B_MODEL, EIGHT_B_MODEL = "nvidia/Cosmos-Reason2-2B", "nvidia/Cosmos-Reason2-8B"


@dataclass
class Setting:
    app: App
    hub: Hub
    folder: Path

    def publish(self, model: str, content: str) -> str:
        """Publish a new commit of a model that only the scripted engine loads."""
        folder = self.folder / "checkpoint-8b"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(content)
        return self.hub.add(model, folder)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    """Provide the 2B on Transformers with the demo model and the 8B on the scripted engine, both from a Hub."""
    folder = tmp_path_factory.mktemp("models")
    models = {
        "reason2B": {"enabled": True},
        "reason8B": {"enabled": True, "engine": SCRIPTED},
    }
    block = {"enabled": True, "modelsReason": models}
    config = parse_config(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}, "cosmosBatch": QUICK}}))
    with Hub() as hub, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_ENDPOINT", hub.url)
        hub.add(TWO_B_MODEL, DEMO_REASON)
        with running_app(folder, config) as app:
            setting = Setting(app, hub, folder)
            setting.publish(EIGHT_B_MODEL, '{"version": 1}')
            yield setting


def backups(app: App) -> list[str]:
    pages = app.client("s3").get_paginator("list_objects_v2").paginate(Bucket=app.outputs["ModelBucketName"])
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def test_a_clip_is_answered_by_the_real_engine_with_a_model_from_the_hub(setting: Setting, clip: Path) -> None:
    app, hub = setting.app, setting.hub
    app.upload("real/clip.mp4", clip, prompt="What color is the circle?", **GREEDY_METADATA)
    ended = app.execution_of("real/clip.mp4", 120)
    assert ended["status"] == "SUCCEEDED", ended
    document = app.document(ended["executionArn"])
    assert document["model"] == TWO_B_MODEL
    assert document["revision"] == hub.repositories[TWO_B_MODEL].main
    assert document["engine"].startswith("transformers ")
    assert document["result"] == "The circle is red."
    assert document["usage"]["promptTokens"] > 50, "the frames are in the prompt"
    assert document["usage"]["completionTokens"] > 0
    assert {"total", "prepare", "generate"} <= set(document["timings"])
    assert re.search(r"load", document["jobLogs"], re.IGNORECASE)


def test_an_image_and_a_clip_are_answered_in_flight_together(setting: Setting, clip: Path, picture: Path) -> None:
    app = setting.app
    asked = {
        "both/clip.mp4": (clip, "What happens last?", "The blue square falls to the ground."),
        "both/p.png": (picture, "How many shapes are there?", "There are two shapes."),
    }
    for key, (file, prompt, _) in asked.items():
        app.upload(key, file, prompt=prompt, **GREEDY_METADATA)
    for key, (_, prompt, answer) in asked.items():
        document = app.document(app.execution_of(key, 120)["executionArn"])
        assert (document["userPrompt"], document["result"]) == (prompt, answer)
    assert set(hub_downloads(setting, TWO_B_MODEL)) == {1}, "downloaded once"


def test_several_files_in_one_request(setting: Setting, clip: Path, picture: Path) -> None:
    """A request and a file's metadata can each name them; the document lists them all."""
    app = setting.app
    versions = {key: app.upload(f"several/{key}", source) for key, source in (("c.mp4", clip), ("p.png", picture))}
    more = {"moreInputs": ["p.png", f"s3://{app.assets}/several/c.mp4"]}
    started = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/several/c.mp4", "parameters": more})
    several = app.document(app.ended(started, 120)["executionArn"])
    assert several["inputFile"] == "c.mp4"
    assert several["moreInputs"] == [
        {"inputFile": name, "inputVersionId": versions[name], "inputUri": f"s3://{app.assets}/several/{name}"}
        for name in ("p.png", "c.mp4")
    ]
    app.upload("several/first.png", picture, prompt="Compare.", COSMOS_REASON_MORE_INPUTS="p.png")
    two = app.document(app.execution_of("several/first.png", 120)["executionArn"])
    assert [one["inputFile"] for one in two["moreInputs"]] == ["p.png"]
    assert several["usage"]["promptTokens"] > two["usage"]["promptTokens"] > 0
    assert sum("image:" in line for line in two["jobLogs"].splitlines()) == 2


def test_a_broken_file_among_several_is_named(setting: Setting, picture: Path) -> None:
    app = setting.app
    app.upload("several/p.png", picture)
    app.upload("several/bad.png", b"these are my notes")
    more = {"moreInputs": ["bad.png"]}
    started = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/several/p.png", "parameters": more})
    error = error_of(app.ended(started, 180))
    assert error["code"] == "InvalidInput" and error["message"].startswith("bad.png: The content is a text")


def hub_downloads(setting: Setting, model: str) -> list[int]:
    return [count for name, count in setting.hub.downloads.items() if name.startswith(f"{model}/")]


def test_the_model_is_published_and_backed_up(setting: Setting) -> None:
    app = setting.app
    commit = setting.hub.repositories[TWO_B_MODEL].main
    published = list((app.cloud.home / "efs").rglob(f"{commit}/manifest.json"))
    assert len(published) == 1
    manifest = f"models/nvidia--Cosmos-Reason2-2B/{commit}/manifest.json"
    wait_for(lambda: manifest in backups(app), 120, "no backup")
    assert any(key.endswith("model.safetensors") for key in backups(app))


def test_an_invalidation_is_one_download_of_that_model_and_no_other(setting: Setting, picture: Path) -> None:
    app = setting.app
    app.upload("asset-1/p.png", picture)
    vams = Vams.of(app, EIGHT_B)
    assert app.ended(vams.start("asset-1/p.png"), 180)["status"] == "SUCCEEDED"
    old = setting.hub.repositories[EIGHT_B_MODEL].main
    wait_for(lambda: f"models/nvidia--Cosmos-Reason2-8B/{old}/manifest.json" in backups(app), 120, "no backup")
    new = setting.publish(EIGHT_B_MODEL, '{"version": 2}')
    of_2b = hub_downloads(setting, TWO_B_MODEL)
    setting.hub.chunk_delay = (
        8.0  # a real model takes longer to come than six files to be asked for; the Hub client waits 10
    )
    executions = [vams.start("asset-1/p.png", parameters={"INVALIDATE_COSMOS_MODELS": "true"}) for _ in range(6)]
    for arn in executions:
        assert app.ended(arn, 180)["status"] == "SUCCEEDED"
        [key] = app.keys(vams.output_of(arn))
        document = json.loads(app.client("s3").get_object(Bucket=app.assets, Key=key)["Body"].read())
        assert document["revision"] == new
    setting.hub.chunk_delay = 0.0
    assert hub_downloads(setting, EIGHT_B_MODEL) == [2], "the first, and one for all six"
    assert hub_downloads(setting, TWO_B_MODEL) == of_2b
    wait_for(lambda: f"models/nvidia--Cosmos-Reason2-8B/{new}/manifest.json" in backups(app), 120, "no new backup")
    assert not any(f"/{old}/" in key for key in backups(app))
    assert any("2B" in key for key in backups(app))


def test_a_licence_that_was_not_accepted_reaches_the_caller(setting: Setting, picture: Path) -> None:
    app = setting.app
    app.upload("asset-1/p.png", picture)
    setting.publish(EIGHT_B_MODEL, '{"version": 3}')
    setting.hub.gated.add(EIGHT_B_MODEL)
    vams = Vams.of(app, EIGHT_B)
    error = error_of(app.ended(vams.start("asset-1/p.png", parameters={"INVALIDATE_COSMOS_MODELS": True}), 180))
    assert error["code"] == "ModelUnavailable"
    assert "icence" in error["message"] + error["remedy"]


def test_the_small_model_was_untouched_by_all_of_it(setting: Setting) -> None:
    assert set(hub_downloads(setting, TWO_B_MODEL)) == {1}
    assert setting.app.workers(TWO_B).pipeline().failures == 0
