"""Runs of VAMS 2.6, whose manifest, configuration and metadata lie in S3, with one or several files."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cosmos_batch.contract.environment import VamsEnvironment
from cosmos_batch.planning.runs.shards import item_line
from cosmos_batch.state import Groups
from lambdas.handlers.vams import handler
from lambdas.runs.objects import RunObjects
from tests.lambdas.cloud import BUS, LOG_GROUP, SMALL, STATE_BUCKET, Cloud, event
from tests.support.runs import read_items, read_shards

INPUTS = "pipelines/workflowExecutionInputs/5d0c2f1e9b7a4c3d8e6f7a8b9c0d1e2f"
FILES = "s3://assets/pipelines/cosmos-reason2-2b/job1/output/5d0c2f1e9b7a4c3d8e6f7a8b9c0d1e2f/files/"
TOKEN = "AQCcAAAAKgAAAAMAAAAAAAAAAXVhbXM="
FIRST, SECOND = 0, 1


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(VamsEnvironment)


def call(cloud: Cloud, files: slice = slice(None), **changes: Any) -> str:
    """Write what VAMS writes, with changes to the manifest, the metadata or the configuration; returns the run's id."""
    manifest = {**event("vams_26_manifest"), **changes.pop("manifest", {})}
    manifest["inputFiles"] = manifest["inputFiles"][files]
    sent = {
        f"{INPUTS}/pipeline1/manifest.json": manifest,
        f"{INPUTS}/pipeline1/config.json": changes.pop("configuration", event("vams_26_configuration")),
        f"{INPUTS}/metadata.json": changes.pop("metadata", event("vams_26_metadata")),
    }
    for key, content in sent.items():
        if content is not None:
            cloud.put(key, content if isinstance(content, bytes) else json.dumps(content).encode())
    answer = handler({"body": {**event("vams_26_body")["body"], **changes}}, None)
    assert answer["statusCode"] == 200
    run_id: str = json.loads(answer["body"])["jobId"]
    return run_id


def requests(cloud: Cloud) -> list[dict[str, Any]]:
    """Return the items of the only run, or the request of the only job, without the deadline."""
    [execution] = cloud.executions()
    if "run" not in execution["input"]:
        assert execution["input"].pop("deadline")
        return [execution["input"]]
    items = read_items(cloud.s3, STATE_BUCKET, execution["input"]["run"]["id"])
    return [json.loads(item_line(item)) for item in items]


def refusal(cloud: Cloud) -> dict[str, Any]:
    [answer] = cloud.stepfunctions.answers
    assert answer["taskToken"] == TOKEN
    assert cloud.executions() == []
    error: dict[str, Any] = json.loads(answer["cause"])
    return error


def test_several_files_are_one_run_with_an_item_for_each(cloud: Cloud) -> None:
    run_id = call(cloud)
    [execution] = cloud.executions()
    assert (execution["name"], execution["input"]) == (run_id, {"run": {"id": run_id}})
    assert requests(cloud) == [
        {
            "id": "cameras/front/robot demo.mp4",
            "input": "s3://assets/imported/arm/cameras/front/robot demo.mp4",
            "versionId": "aVersion",
            "output": f"{FILES}cameras/front/",
            "prompt": "Was passiert hier? 🤖",
            "parameters": {"maxTokens": 512, "seed": 7},
        },
        {
            "id": "still.png",
            "input": "s3://assets/imported/arm/still.png",
            "output": FILES,
            "prompt": "of the configuration",
            "parameters": {"maxTokens": 512, "seed": 7},
        },
    ]
    request = RunObjects(STATE_BUCKET, run_id).request()
    assert (request.pipelines, request.caller, request.invalidate_model) == ([SMALL], "robots", False)
    assert request.origin == f"s3://assets/{INPUTS}/pipeline1/manifest.json"
    before_timeout = timedelta(seconds=28_800 - 900)
    assert request.deadline is not None
    assert timedelta() <= datetime.now(UTC) + before_timeout - request.deadline < timedelta(minutes=1)


def test_a_run_may_ask_for_a_new_copy_of_the_model(cloud: Cloud) -> None:
    run_id = call(cloud, configuration={"INVALIDATE_COSMOS_MODELS": "true"})
    assert RunObjects(STATE_BUCKET, run_id).request().invalidate_model


def test_more_files_than_a_shard_takes_are_one_run_too(cloud: Cloud) -> None:
    files = [
        {"bucket": "assets", "key": f"arm/{number}.mp4", "relativePath": f"/{number}.mp4"} for number in range(600)
    ]
    run_id = call(cloud, manifest={"inputFiles": files})
    assert [execution["name"] for execution in cloud.executions()] == [run_id]
    assert [shard.items for shard in read_shards(cloud.s3, STATE_BUCKET, run_id)] == [10, 20, 40, 80, 160, 250, 40]


def test_one_file_is_a_run_as_it_was_in_2_5(cloud: Cloud) -> None:
    run_id = call(cloud, slice(1))
    [execution] = cloud.executions()
    assert execution["name"] == run_id
    group = Groups(cloud.table).get(run_id)
    assert group is not None and group.waiting == {TOKEN}


def test_equal_paths_in_two_assets_are_distinguished(cloud: Cloud) -> None:
    """Errors name the files, and each result is written beside its own file."""
    [file, _] = event("vams_26_manifest")["inputFiles"]
    other = {**file, "assetId": "xasset2", "key": file["key"].replace("arm", "leg")}
    call(cloud, manifest={"inputFiles": [file, other]})
    path = "cameras/front/robot demo.mp4"
    assert [item["id"] for item in requests(cloud)] == [f"xasset1/{path}", f"xasset2/{path}"]


def test_a_repeated_call_starts_nothing_twice(cloud: Cloud) -> None:
    assert call(cloud) == call(cloud)
    assert len(cloud.executions()) == 1


def test_the_token_is_kept_once_and_goes_nowhere_else(cloud: Cloud, lines: Callable[[], str]) -> None:
    run_id = call(cloud)
    assert TOKEN not in json.dumps(cloud.executions(), default=str) + lines() + json.dumps(cloud.events.entries)
    row = cloud.table.get(f"group#{run_id}", "group")
    assert row is not None and (row["taskTokens"], row["jobs"]) == ({TOKEN}, 1)


def test_metadata_of_schema_version_1_is_that_of_2_5(cloud: Cloud) -> None:
    sent = {"schemaVersion": 1, "metadata": {"VAMS": {"fileMetadata": {"COSMOS_REASON_PROMPT": "as before"}}}}
    call(cloud, slice(1), metadata=sent)
    assert requests(cloud)[FIRST]["prompt"] == "as before"


@pytest.mark.parametrize("configuration", [None, b"", {}])
def test_no_configuration_has_to_be_written(cloud: Cloud, configuration: object) -> None:
    call(cloud, configuration=configuration)
    assert "prompt" not in requests(cloud)[SECOND]


def test_metadata_may_be_named_in_the_body(cloud: Cloud) -> None:
    place = f"s3://assets/{INPUTS}/metadata.json"
    call(cloud, manifest={"inputMetadataS3Location": ""}, inputMetadataS3Location=place)
    assert requests(cloud)[FIRST]["prompt"] == "Was passiert hier? 🤖"


def test_a_path_cannot_climb_out_of_the_output(cloud: Cloud) -> None:
    manifest = event("vams_26_manifest")
    manifest["inputFiles"][0]["relativePath"] = "/../../other/clip.mp4"
    call(cloud, slice(1), manifest=manifest)
    assert requests(cloud)[FIRST]["output"] == f"{FILES}%2E%2E/%2E%2E/other/"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"inputManifestS3Location": f"s3://assets/{INPUTS}/pipeline2/manifest.json"}, "pipeline2/manifest.json"),
        ({"inputManifestS3Location": "manifest.json"}, "manifest"),
        ({"inputConfigurationS3Location": "config.json"}, "configuration"),
        ({"configuration": b"{broken"}, "configuration"),
        ({"configuration": [1]}, "configuration"),
        ({"configuration": {"MODEL_SIZE": "8B"}}, "MODEL_SIZE"),
        ({"metadata": b"\xff"}, "metadata"),
        ({"metadata": None}, "metadata.json"),
        ({"manifest": {"outputs": {"bucket": "", "files": ""}}}, "outputs.bucket"),
        ({"manifest": {"inputFiles": []}}, "no file"),
        ({"manifest": {"inputFiles": [{"bucket": "", "key": "a.mp4"}]}}, "input"),
        ({"manifest": {"inputFiles": [{"bucket": "assets", "key": "a.mp4"}] * 10_001}}, "10001"),
    ],
)
def test_an_error_is_sent_with_the_token(cloud: Cloud, changes: dict[str, Any], named: str) -> None:
    call(cloud, **changes)
    error = refusal(cloud)
    assert error["code"] == "InvalidInput"
    assert named in error["message"]


def test_a_forbidden_place_is_not_reported_as_missing(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(**arguments: str) -> Any:
        metadata = {"HTTPStatusCode": 403, "HTTPHeaders": {}}
        raise cloud.s3.exceptions.ClientError({"Error": {"Code": "403"}, "ResponseMetadata": metadata}, "HeadObject")

    monkeypatch.setattr(cloud.s3, "head_object", forbidden)
    call(cloud)
    error = refusal(cloud)
    assert error["message"].startswith("The manifest may not be read") and "vams.buckets" in error["remedy"]


def test_a_generator_may_start_from_text_alone(monkeypatch: pytest.MonkeyPatch, cloud: Cloud) -> None:
    monkeypatch.setenv("PIPELINE", "cosmos3-nano")
    call(cloud, manifest={"inputFiles": []}, configuration={"prompt": "A drone shot."})
    [execution] = cloud.executions()
    assert (execution["input"].get("input"), execution["input"]["output"]) == (None, FILES)


def test_a_run_that_cannot_be_started_is_a_failure_at_once(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**_: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(cloud.stepfunctions, "start_execution", unreachable, raising=False)
    call(cloud)
    assert refusal(cloud)["code"] == "Internal"


class TestOrchestration:
    """Tests of VAMS's orchestration bus, on which executions are registered."""

    @pytest.mark.parametrize("files", [1, 2])
    def test_the_execution_is_registered(self, cloud: Cloud, files: int) -> None:
        call(cloud, slice(files))
        [entry], [execution] = cloud.events.entries, cloud.executions()
        assert entry["EventBusName"] == BUS
        assert entry["Source"] == event("vams_26_manifest")["systemConfig"]["orchestrationEventPrefix"]
        assert entry["DetailType"] == "pipeline.execution.register"
        assert json.loads(entry["Detail"]) == {
            "pipelineExecutionId": "0a1b2c3d",
            "subExecution": {
                "resourceType": "stepFunctionsExecution",
                "stateMachineArn": cloud.machine,
                "executionArn": execution["executionArn"],
            },
            "logs": [{"logGroupArn": LOG_GROUP, "logGroupName": "/cosmos/machine"}],
        }

    @pytest.mark.parametrize("without", ["bus", "prefix"])
    def test_without_a_bus_or_a_name_on_it_nothing_is_published(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, without: str
    ) -> None:
        if without == "bus":
            monkeypatch.delenv("ORCHESTRATION_BUS")
        call(cloud, manifest={"systemConfig": {}} if without == "prefix" else {})
        assert len(cloud.executions()) == 1 and cloud.events.entries == []

    def test_a_bus_that_refuses_stops_nothing(
        self, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, lines: Callable[[], str]
    ) -> None:
        def refuses(**_: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(cloud.events, "put_events", refuses)
        call(cloud)
        assert len(cloud.executions()) == 1 and cloud.stepfunctions.answers == []
        assert "its abort will not stop it" in lines()
