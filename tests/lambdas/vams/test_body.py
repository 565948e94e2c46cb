"""A call of VAMS returns at once, and every error reaches its task token."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.catalogue.pipelines import PIPELINES, Pipeline
from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.state import Groups
from lambdas.handlers.vams import handler
from lambdas.vams.requests import check_model, read_prompt
from tests.lambdas.cloud import SMALL, STATE_BUCKET, Cloud, event

FILES = "s3://assets/pipelines/cosmos-reason2-2b/job1/output/exec1/files/"
TOKEN = "AQCcAAAAKgAAAAMAAAAAAAAAAXVhbXM="


@pytest.fixture(autouse=True)
def _environment(request: pytest.FixtureRequest) -> None:
    if "cloud" in request.fixturenames:
        request.getfixturevalue("configure")(VamsEnvironment)


def body(**changes: Any) -> dict[str, Any]:
    return {**event("vams_object_body")["body"], **changes}


def call(**changes: Any) -> dict[str, Any]:
    answer = handler({"body": body(**changes)}, None)
    assert answer["statusCode"] == 200
    return answer


def waiting(cloud: Cloud) -> set[str]:
    """Return the tokens that wait for the only execution."""
    [execution] = cloud.executions()
    group = Groups(cloud.table).get(execution["name"])
    assert group is not None
    return group.waiting


def refusal(cloud: Cloud) -> dict[str, Any]:
    """Return the error that the token was answered with, having checked that nothing was started."""
    [answer] = cloud.stepfunctions.answers
    assert answer["taskToken"] == TOKEN
    assert cloud.executions() == []
    error: dict[str, Any] = json.loads(answer["cause"])
    assert error["code"] == answer["error"]
    assert error["message"] and error["remedy"]
    return error


@pytest.mark.parametrize("shape", ["vams_object_body", "vams_string_body"])
def test_the_body_becomes_a_request(cloud: Cloud, shape: str) -> None:
    before = datetime.now(UTC)
    answer = handler(event(shape), None)
    [execution] = cloud.executions()
    assert answer == {"statusCode": 200, "body": json.dumps({"jobId": execution["name"]})}
    deadline = datetime.fromisoformat(execution["input"].pop("deadline"))
    assert timedelta() <= deadline - before - timedelta(seconds=28_800 - 900) < timedelta(minutes=1)
    assert execution["input"] == {
        "pipeline": SMALL,
        "input": "s3://assets/xasset1/cameras/front/robot demo.mp4",
        "output": f"{FILES}cameras/front/",
        "caller": "robots",
        "prompt": "Was passiert hier? 🤖",
        "parameters": {"maxTokens": 512, "seed": 7},
    }


@pytest.mark.parametrize(
    ("root", "file", "directory"),
    [
        ("imported/robots/arm/", "imported/robots/arm/left/c.mp4", "left/"),
        ("imported/robots/arm", "imported/robots/arm/left/cam 1/c.mp4", "left/cam 1/"),
        ("/imported/robots/arm/", "imported/robots/arm/c.mp4", ""),
        ("xasset1/", "xasset1/xasset1/c.mp4", "xasset1/"),
        ("arm/", "arm/../c.mp4", "%2E%2E/"),
    ],
)
def test_the_directory_is_that_below_the_root_of_the_asset(cloud: Cloud, root: str, file: str, directory: str) -> None:
    call(inputAssetLocationKey=root, inputS3AssetFilePath=f"s3://assets/{file}")
    [execution] = cloud.executions()
    assert execution["input"]["output"] == FILES + directory
    assert "assetId" not in execution["input"], "the folder that is called as the asset does not count any more"


@pytest.mark.parametrize("root", [None, "", "/", "elsewhere/", "xasset"])
def test_without_a_root_above_the_file_the_id_of_the_asset_tells_the_directory(cloud: Cloud, root: str | None) -> None:
    call(inputAssetLocationKey=root)
    [execution] = cloud.executions()
    assert (execution["input"]["output"], execution["input"]["assetId"]) == (FILES, "xasset1")


def test_the_token_is_kept_and_goes_nowhere_else(cloud: Cloud, lines: Callable[[], str]) -> None:
    call()
    [execution] = cloud.executions()
    assert waiting(cloud) == {TOKEN}
    logged = lines()
    assert TOKEN not in json.dumps(execution, default=str) + logged
    assert "passiert" not in logged


@pytest.mark.parametrize(
    "event",
    [
        {"body": "{no json"},
        {"body": "[]"},
        {"body": None},
        {},
        {"body": {"inputS3AssetFilePath": "s3://assets/a.mp4"}},
        {"body": {"TaskToken": " "}},
        {"body": {"TaskToken": 5}},
    ],
)
def test_without_a_token_the_answer_refuses(cloud: Cloud, event: dict[str, Any]) -> None:
    answer = handler(event, None)
    assert answer["statusCode"] == 400
    error = json.loads(answer["body"])
    assert error["code"] == "InvalidInput"
    assert error["message"] and error["remedy"]
    assert cloud.executions() == [] and cloud.stepfunctions.answers == []


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"inputParameters": "{broken"}, "inputParameters"),
        ({"inputMetadata": "{broken"}, "inputMetadata"),
        ({"inputParameters": "[1]"}, "inputParameters"),
        ({"inputParameters": {"MODEL_TYPE": "predict"}}, "MODEL_TYPE"),
        ({"inputParameters": {"MODEL_SIZE": "8B"}}, "MODEL_SIZE"),
        ({"inputParameters": {"maxTokens": -5}}, "maxTokens"),
        ({"inputMetadata": "", "inputParameters": {"prompt": ["a", "list"]}}, "prompt"),
        ({"inputS3AssetFilePath": "clip.mp4"}, "inputS3AssetFilePath: 'clip.mp4' must be an S3 URI"),
        ({"inputS3AssetFilePath": ""}, "inputS3AssetFilePath"),
        ({"inputParameters": {"MODEL_SIZE": "large" * 60}}, "MODEL_SIZE"),
        ({"outputS3AssetFilesPath": None}, "outputS3AssetFilesPath"),
        ({"inputMetadata": {"VAMS": {"fileMetadata": {"COSMOS_REASON_PROMPT": "\ud83d"}}}}, "prompt"),
    ],
)
def test_every_failure_is_reported_with_the_token(cloud: Cloud, changes: dict[str, Any], named: str) -> None:
    call(**changes)
    error = refusal(cloud)
    assert error["code"] == "InvalidInput"
    assert named in error["message"]


def test_an_error_of_our_own_is_reported_too(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(cloud.stepfunctions, "start_execution", unreachable, raising=False)
    call()
    [answer] = cloud.stepfunctions.answers
    assert answer["error"] == "Internal"


def test_an_outdated_token_is_no_error(cloud: Cloud) -> None:
    cloud.stepfunctions.refusal = "TaskTimedOut"
    call(inputParameters="{broken")


@pytest.mark.parametrize("empty", ["", " ", None, "{}", {}, "null"])
def test_absent_keys_set_nothing(cloud: Cloud, empty: object) -> None:
    call(inputParameters=empty, inputMetadata=empty, assetId="", databaseId="", inputAssetLocationKey="")
    [execution] = cloud.executions()
    assert set(execution["input"]) == {"pipeline", "input", "output", "deadline"}


@pytest.mark.parametrize(
    ("value", "invalidates"), [(True, True), ("true", True), (" True ", True), (False, False), ("no", False)]
)
def test_invalidation_may_be_text(cloud: Cloud, value: object, invalidates: bool) -> None:
    call(inputParameters={"INVALIDATE_COSMOS_MODELS": value})
    [execution] = cloud.executions()
    assert execution["input"].get("invalidateModel", False) is invalidates


@pytest.mark.parametrize("parameters", [{"MODEL_TYPE": "cosmos-reason2", "MODEL_SIZE": "2b"}, {"MODEL_SIZE": ""}])
def test_a_model_that_agrees_is_accepted(cloud: Cloud, parameters: dict[str, str]) -> None:
    call(inputParameters={**parameters, "somethingElse": {"of": "VAMS"}})
    assert len(cloud.executions()) == 1


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: one.id)
def test_a_pipeline_accepts_the_model_with_which_it_is_registered(pipeline: Pipeline) -> None:
    check_model({"MODEL_TYPE": "reason", "MODEL_SIZE": pipeline.model_size}, pipeline)


def test_a_long_prompt_is_sent_as_an_s3_uri(cloud: Cloud) -> None:
    prompt = "x" * (PROMPT_INLINE_LIMIT + 1)
    call(inputMetadata={"VAMS": {"fileMetadata": {"COSMOS_REASON_PROMPT": prompt}}})
    [execution] = cloud.executions()
    key = f"requests/{execution['name']}/prompt.txt"
    assert execution["input"]["promptUri"] == f"s3://{STATE_BUCKET}/{key}"
    assert cloud.s3.get_object(Bucket=STATE_BUCKET, Key=key)["Body"].read().decode() == prompt


MAYBE = st.none() | st.sampled_from(["", "  ", "\n"]) | st.text(st.characters(codec="utf-8"), min_size=1)


@given(of_file=MAYBE, lower=MAYBE, upper=MAYBE)
def test_the_prompt_of_the_file_goes_before_those_of_the_parameters(
    of_file: str | None, lower: str | None, upper: str | None
) -> None:
    prompts = [text for text in (of_file, lower, upper) if text and text.strip()]
    parameters = {"prompt": lower, "PROMPT": upper}
    assert read_prompt({"COSMOS_REASON_PROMPT": of_file}, parameters) == (prompts[0] if prompts else None)


def test_the_prompt_of_the_asset_does_not_count(cloud: Cloud) -> None:
    call(inputMetadata={"VAMS": {"assetMetadata": {"COSMOS_REASON_PROMPT": "of the asset"}}}, inputParameters="")
    [execution] = cloud.executions()
    assert "prompt" not in execution["input"]


def test_parameters_come_from_the_file_then_from_the_pipeline(cloud: Cloud) -> None:
    of_file = {"COSMOS_REASON_FPS": "2", "COSMOS_REASON_TASK": "caption", "COSMOS_REASON_SEED": ""}
    call(
        inputMetadata={"VAMS": {"fileMetadata": of_file}},
        inputParameters={
            "fps": "8", "seed": "5", "reasoning": "true", "systemPrompt": "Be brief.", "topP": 0.5,
            "jsonSchema": '{"type": "object"}', "longVideo": "refuse", "task": " ",
        },
    )  # fmt: skip
    [execution] = cloud.executions()
    assert execution["input"]["systemPrompt"] == "Be brief."
    assert execution["input"]["parameters"] == {
        "task": "caption", "reasoning": True, "seed": 5, "topP": 0.5, "fps": 2, "longVideo": "refuse",
        "jsonSchema": {"type": "object"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"task": "sing"}, "task: 'sing'"),
        ({"jsonSchema": "{"}, "jsonSchema: '{'"),
        ({"jsonSchema": {"type": "no"}}, "is no JSON schema"),
        ({"start": "5", "end": "4"}, "end: '4': must be later than start, 5"),
        ({"fps": "0"}, "fps: '0'"),
    ],
)
def test_a_wrong_parameter_reaches_the_token_by_its_name(cloud: Cloud, parameters: Any, named: str) -> None:
    call(inputParameters=parameters)
    assert named in refusal(cloud)["message"]
