"""An upload starts what its metadata asks for, once, and an object that Cosmos Batch wrote starts nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.contract.environment import UploadEnvironment
from cosmos_batch.contract.job import OutputKey
from cosmos_batch.planning.executions import execution_name
from cosmos_batch.state import ReservedKeys
from lambdas.handlers.upload import handler
from lambdas.intake.metadata import unknown_settings
from lambdas.s3_objects import real_version
from tests.lambdas.cloud import LARGE, SMALL, STATE_BUCKET, Cloud, event, sqs_batch

PROMPT = {"cosmos_reason_prompt": "What happens?"}
NOTHING_FAILED: dict[str, Any] = {"batchItemFailures": []}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(UploadEnvironment)


def created(key: str, version: str | None = None, bucket: str = "assets") -> dict[str, Any]:
    shape = event("s3_object_created" if version else "s3_object_created_unversioned")
    shape["detail"]["bucket"]["name"] = bucket
    shape["detail"]["object"]["key"] = key
    if version:
        shape["detail"]["object"]["version-id"] = version
    return dict(shape)


def upload(cloud: Cloud, key: str, **arguments: Any) -> dict[str, Any]:
    """Put an object and hand its event to the function."""
    version = cloud.put(key, **arguments)
    return handler(sqs_batch(created(key, version)), None)


@pytest.mark.parametrize("key", ["a b+c%20é/my clip+1%.mp4", "../up.mp4", "日本/動画.mov", "/leading.png"])
def test_a_key_is_taken_as_it_is(cloud: Cloud, key: str) -> None:
    version = cloud.put(key, Metadata=PROMPT)
    assert handler(sqs_batch(created(key, version)), None) == NOTHING_FAILED
    [execution] = cloud.executions()
    assert execution["input"] == {
        "pipeline": SMALL,
        "input": f"s3://assets/{key}",
        "prompt": "What happens?",
        "inputVersionId": version,
        "caller": f"assets/{key.split('/')[0]}",
        "uploaded": True,
    }
    assert execution["name"] == execution_name(SMALL, "assets", key, str(version))


def test_the_same_event_twice_is_one_run(cloud: Cloud) -> None:
    version = cloud.put("clip.mp4", Metadata=PROMPT)
    handler(sqs_batch(created("clip.mp4", version), created("clip.mp4", version)), None)
    handler(sqs_batch(created("clip.mp4", version)), None)
    assert len(cloud.executions()) == 1


def test_an_overwritten_file_is_another_run(cloud: Cloud) -> None:
    upload(cloud, "clip.mp4", Metadata=PROMPT)
    upload(cloud, "clip.mp4", Metadata=PROMPT)
    assert len(cloud.executions()) == 2


def test_without_versions_the_content_and_the_time_are_the_identity(cloud: Cloud) -> None:
    cloud.put("clip.mp4", bucket="plain", Metadata=PROMPT)
    handler(sqs_batch(created("clip.mp4", bucket="plain")), None)
    handler(sqs_batch(created("clip.mp4", bucket="plain")), None)
    cloud.put("clip.mp4", b"other", bucket="plain", Metadata=PROMPT)
    handler(sqs_batch(created("clip.mp4", bucket="plain")), None)
    assert len(cloud.executions()) == 2
    assert "inputVersionId" not in cloud.executions()[0]["input"]


def test_a_bucket_that_ceased_to_keep_versions_has_none(cloud: Cloud) -> None:
    cloud.s3.put_bucket_versioning(Bucket="assets", VersioningConfiguration={"Status": "Suspended"})
    cloud.put("clip.mp4", Metadata=PROMPT)
    handler(sqs_batch(created("clip.mp4", "null")), None)
    cloud.put("clip.mp4", b"other", Metadata=PROMPT)
    handler(sqs_batch(created("clip.mp4", "null")), None)
    assert len(cloud.executions()) == 2
    assert "inputVersionId" not in cloud.executions()[0]["input"]


@pytest.mark.parametrize(("answer", "version"), [({"VersionId": "v"}, "v"), ({"VersionId": "null"}, None), ({}, None)])
def test_the_version_null_of_s3_counts_as_none(answer: dict[str, str], version: str | None) -> None:
    assert real_version(answer) == version


@pytest.mark.parametrize(
    "key",
    [
        "asset/clip_CosmosReason_20260410-165029.json",
        "asset/clip_CosmosError_20260410-165029.json",
        "asset/clip_CosmosReason_20260410-165029.boxes.png",
        "pipeline/x.mp4",
        "pipelines/x.mp4",
        "preview/x.mp4",
        "previews/x.mp4",
        "temp-upload/x.mp4",
        "temp-uploads/x.mp4",
        "workspace/x.mp4",
        "workspaces/x.mp4",
        "asset/clip.mp4.previewFile.png",
        "folder/",
        "clip.mp4.metadata.json.metadata.json",
    ],
)
def test_what_is_no_input_by_its_name_starts_nothing(cloud: Cloud, key: str) -> None:
    assert upload(cloud, key, Metadata=PROMPT) == NOTHING_FAILED
    assert cloud.executions() == []


@pytest.mark.parametrize("key", ["asset/pipelines/x.mp4", "pipelines.mp4", "my_CosmosReason_notes.mp4"])
def test_names_that_only_resemble_those_do_start(cloud: Cloud, key: str) -> None:
    upload(cloud, key, Metadata=PROMPT)
    assert len(cloud.executions()) == 1


def test_our_own_objects_start_nothing(cloud: Cloud) -> None:
    upload(cloud, "marked.mp4", Metadata={**PROMPT, "cosmos-batch-job": "job-1"})
    ReservedKeys(cloud.table).reserve(OutputKey(bucket="assets", key="reserved.mp4"), "job-1")
    upload(cloud, "reserved.mp4", Metadata=PROMPT)
    assert cloud.executions() == []


def test_a_deleted_file_starts_nothing(cloud: Cloud) -> None:
    assert handler(sqs_batch(created("gone.mp4")), None) == NOTHING_FAILED
    assert cloud.executions() == []


@pytest.mark.parametrize("blank", [{}, {"cosmos_reason_prompt": " \t"}])
def test_without_prompt_and_trigger_nothing_starts(cloud: Cloud, blank: dict[str, str]) -> None:
    upload(cloud, "clip.mp4", Metadata=blank)
    upload(cloud, "notes.txt")
    assert cloud.executions() == []


@pytest.mark.parametrize("named", ["cosmos-reason2-8b", "no such/pipeline: ünïcode" + "x" * 90])
def test_the_named_pipeline_is_started_known_or_not(cloud: Cloud, named: str) -> None:
    cloud.put("clip.mp4.metadata.json", json.dumps({"COSMOS_PIPELINE": named}).encode())
    upload(cloud, "clip.mp4", Metadata=PROMPT)
    [execution] = cloud.executions()
    assert execution["input"]["pipeline"] == named
    assert len(execution["name"]) <= 80


def test_a_format_that_is_not_supported_is_refused_where_it_can_be_seen(cloud: Cloud) -> None:
    upload(cloud, "notes.txt", Metadata=PROMPT)
    assert len(cloud.executions()) == 1


def test_a_trigger_and_a_named_pipeline_both_run(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4")
    upload(cloud, "CLIP.MP4", Metadata={**PROMPT, "cosmos-pipeline": LARGE})
    assert [execution["input"]["pipeline"] for execution in cloud.executions()] == [SMALL, LARGE]


def test_a_triggered_file_without_prompt_waits_for_its_sidecar(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4")
    upload(cloud, "clip.mp4")
    assert cloud.executions() == []
    queued = cloud.sqs.get_queue_attributes(QueueUrl=cloud.uploads, AttributeNames=["All"])["Attributes"]
    assert queued["ApproximateNumberOfMessagesDelayed"] == "1"


def test_when_the_grace_is_over_the_file_runs_without_prompt(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4", grace_seconds=1)
    version = cloud.put("clip.mp4")
    handler(sqs_batch(created("clip.mp4", version)), None)
    [message] = cloud.sqs.receive_message(QueueUrl=cloud.uploads, WaitTimeSeconds=3)["Messages"]
    handler(sqs_batch(message["Body"]), None)
    [execution] = cloud.executions()
    assert "prompt" not in execution["input"]


def test_a_long_prompt_is_sent_as_an_s3_uri(cloud: Cloud) -> None:
    prompt = "é" * PROMPT_INLINE_LIMIT
    cloud.put("clip.mp4.metadata.json", json.dumps({"COSMOS_REASON_PROMPT": prompt}).encode())
    upload(cloud, "clip.mp4")
    [execution] = cloud.executions()
    assert "prompt" not in execution["input"]
    key = f"requests/{execution['name']}/prompt.txt"
    assert execution["input"]["promptUri"] == f"s3://{STATE_BUCKET}/{key}"
    assert cloud.s3.get_object(Bucket=STATE_BUCKET, Key=key)["Body"].read().decode() == prompt


def test_one_bad_record_does_not_hold_up_the_others(cloud: Cloud, lines: Callable[[], str]) -> None:
    version = cloud.put("clip.mp4", Metadata={"cosmos_reason_prompt": "a secret plan"})
    answer = handler(sqs_batch("no json", created("clip.mp4", version)), None)
    assert answer == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    assert len(cloud.executions()) == 1
    logged = lines()
    assert all(json.loads(line) for line in logged.splitlines())
    assert "secret" not in logged


def test_a_task_starts_a_run_without_a_prompt(cloud: Cloud) -> None:
    upload(cloud, "clip.mp4", Metadata={"cosmos-reason-task": "temporal-localization", "cosmos_reason_fps": "2"})
    [execution] = cloud.executions()
    assert "prompt" not in execution["input"]
    assert execution["input"]["metadata"] == {"task": "temporal-localization", "fps": "2"}


def test_other_settings_alone_ask_nothing(cloud: Cloud) -> None:
    upload(cloud, "clip.mp4", Metadata={"cosmos_reason_fps": "2"})
    assert cloud.executions() == []


def test_an_invalid_setting_is_passed_on_to_plan_which_reports_it(cloud: Cloud) -> None:
    settings = {"COSMOS_REASON_FPS": -1, "COSMOS_REASON_SYSTEM_PROMPT": "x" * 40_000, "COSMOS_REASON_TASK": "no\ud83d"}
    cloud.put("clip.mp4.metadata.json", json.dumps({**settings, "COSMOS_REASON_JSON_SCHEMA": _nested(300)}).encode())
    assert upload(cloud, "clip.mp4", Metadata=PROMPT) == NOTHING_FAILED
    [execution] = cloud.executions()
    metadata = execution["input"]["metadata"]
    assert (metadata["fps"], metadata["task"], metadata["systemPrompt"]) == (
        -1,
        "no?",
        "(a value of 40,002 characters)",
    )
    assert metadata["jsonSchema"].startswith("(a value of ")


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"not": schema}
    return schema


MISSPELT = {
    "cosmos-reason-fsp": "COSMOS_REASON_FSP: there is no such setting; is COSMOS_REASON_FPS meant?",
    "COSMOS_REASON_PROMT": "COSMOS_REASON_PROMT: there is no such setting; is COSMOS_REASON_PROMPT meant?",
    "cosmos3_promt": "COSMOS3_PROMT: there is no such setting; is COSMOS3_PROMPT meant?",
    "cosmos_reason_zzz": "COSMOS_REASON_ZZZ: there is no such setting",
}


@pytest.mark.parametrize("key", MISSPELT)
@pytest.mark.parametrize("asks", [{}, PROMPT], ids=["alone", "beside a prompt"])
def test_an_unknown_setting_is_reported_with_the_most_similar_setting(
    cloud: Cloud, key: str, asks: dict[str, str]
) -> None:
    upload(cloud, "clip.mp4", Metadata={**asks, key: "2"})
    [execution] = cloud.executions()
    [fault] = execution["input"]["faults"]
    assert fault.startswith(MISSPELT[key])


@pytest.mark.parametrize("metadata", [{"cosmos_reason_fsp": " "}, {"cosmos_predict_prompt": "x"}, {"cosmos": "x"}])
def test_blank_keys_and_keys_of_other_tools_are_ignored(cloud: Cloud, metadata: dict[str, str]) -> None:
    upload(cloud, "clip.mp4", Metadata=metadata)
    assert cloud.executions() == []


def test_no_setting_of_vams_or_of_ours_is_reported_as_unknown() -> None:
    ours = [f"COSMOS_REASON_{name}" for name in ("PROMPT", "SYSTEM_PROMPT", "FPS", "MAX_TOKENS", "JSON_SCHEMA")]
    of_vams = ("PROMPT", "NEGATIVE_PROMPT", "SEED", "GUIDANCE", "NUM_FRAMES", "TASK_MODE", "CONTROL_TYPE")
    of_vams += ("CONTROL_PATH", "CONTROL_WEIGHT", "CONTROL_GUIDANCE")
    assert unknown_settings(dict.fromkeys([*ours, *(f"COSMOS3_{name}" for name in of_vams)], "1")) == []


def test_two_triggers_tell_of_a_fault_once(cloud: Cloud, configure: Callable[..., None]) -> None:
    configure(UploadEnvironment, auto_trigger=".mp4")
    upload(cloud, "clip.mp4", Metadata={**PROMPT, "cosmos-pipeline": LARGE, "cosmos-reason-fsp": "2"})
    assert len(cloud.executions()) == 1
