"""VAMS's requests to a generator, with the names of its own Cosmos 3 pipeline, in 2.5 and in 2.6."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.planning.requests import read_request
from lambdas.handlers.vams import handler
from tests.lambdas.cloud import NANO, Cloud, event
from tests.lambdas.vams.test_manifest import FILES, INPUTS

FILE = "s3://assets/xasset1/cameras/front/robot demo.mp4"
RUN_OF_TEXT = {"TASK_MODE": "text2video", "prompt": "of the configuration"}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(VamsEnvironment, vams_pipeline=NANO)


def in_25(configuration: dict[str, Any], of_file: dict[str, Any], of_asset: dict[str, Any]) -> None:
    metadata = {"VAMS": {"fileMetadata": of_file, "assetMetadata": of_asset}}
    fields = {"inputMetadata": json.dumps(metadata), "inputParameters": json.dumps(configuration)}
    assert handler({"body": {**event("vams_object_body")["body"], **fields}}, None)["statusCode"] == 200


def in_26(
    cloud: Cloud, configuration: dict[str, Any], of_file: dict[str, Any], of_asset: dict[str, Any], files: int = 1
) -> None:
    manifest = event("vams_26_manifest")
    manifest["inputFiles"] = manifest["inputFiles"][:files]
    records = [
        {"fileKey": "/", "metadata": of_asset},
        {"fileKey": "/cameras/front/robot demo.mp4", "metadata": of_file},
    ]
    metadata = {"schemaVersion": 2, "assets": [{"databaseId": "robots", "assetId": "xasset1", "files": records}]}
    for name, content in (
        ("pipeline1/manifest.json", manifest),
        ("pipeline1/config.json", configuration),
        ("metadata.json", metadata),
    ):
        cloud.put(f"{INPUTS}/{name}", json.dumps(content).encode())
    assert handler(event("vams_26_body"), None)["statusCode"] == 200


def only(cloud: Cloud) -> dict[str, Any]:
    [started] = cloud.executions()
    assert read_request(started["input"]).pipeline == NANO, "plan reads it"
    request: dict[str, Any] = started["input"]
    return request


@pytest.mark.parametrize("version", ["2.5", "2.6"])
def test_the_file_wins_over_the_asset_and_the_asset_over_the_configuration(cloud: Cloud, version: str) -> None:
    configuration = {
        "prompt": "of the configuration",
        "COSMOS3_SEED": 1,
        "COSMOS3_GUIDANCE": "5",
        "MODEL_VARIANT": "NANO",
    }
    of_file = {"COSMOS3_PROMPT": "of the file", "COSMOS3_SEED": "3"}
    of_asset = {"COSMOS3_PROMPT": "of the asset", "COSMOS3_SEED": "2", "COSMOS3_NUM_FRAMES": "93"}
    if version == "2.5":
        in_25(configuration, of_file, of_asset)
    else:
        in_26(cloud, configuration, of_file, of_asset)
    request = only(cloud)
    assert request["prompt"] == "of the file" and request["input"].endswith("/cameras/front/robot demo.mp4")
    assert request["generation"] == {"seed": 3, "guidanceScale": 5, "numFrames": 93}


@pytest.mark.parametrize("version", ["2.5", "2.6", "2.6 without a file"])
def test_a_mode_that_starts_from_text_reads_the_asset_and_no_file(cloud: Cloud, version: str) -> None:
    of_file, of_asset = {"COSMOS3_PROMPT": "of the file"}, {"COSMOS3_PROMPT": "of the asset"}
    configuration = {**RUN_OF_TEXT, "DISABLE_GUARDRAILS": "true", "GENERATE_PREVIEW_GIF": "false"}
    if version == "2.5":
        in_25(configuration, of_file, of_asset)
    else:
        in_26(cloud, configuration, of_file, of_asset, files=1 if version == "2.6" else 0)
    request = only(cloud)
    assert (request["prompt"], "input" in request) == ("of the asset", False)
    assert request["generation"] == {"mode": "t2v", "guardrails": False, "preview": False}
    if version != "2.5":
        assert request["output"] == FILES


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"MODEL_VARIANT": "super"}, "MODEL_VARIANT"),
        ({"COSMOS3_CONTROL_PATH": "a.mp4"}, "COSMOS3_CONTROL_TYPE"),
        ({"COSMOS3_SEED": "seven"}, "seed"),
        ({"DISABLE_GUARDRAILS": "perhaps"}, "DISABLE_GUARDRAILS"),
    ],
)
def test_an_error_is_reported_to_vams(cloud: Cloud, configuration: dict[str, Any], message: str) -> None:
    in_25(configuration, {}, {})
    [answer] = cloud.stepfunctions.answers
    assert message in json.loads(answer["cause"])["message"] and cloud.executions() == []


def test_invalidation_is_read(cloud: Cloud) -> None:
    in_25({"INVALIDATE_COSMOS_MODELS": "true"}, {"COSMOS3_PROMPT": "x"}, {})
    assert only(cloud)["invalidateModel"] is True
