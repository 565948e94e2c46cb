"""Requests, errors, documents, environments and messages are read and written as their schemas say."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from cosmos_batch.catalogue.pipelines import PIPELINES, attribution_of
from cosmos_batch.contract.document import ReasonerDocument
from cosmos_batch.contract.environment import (
    DeployedCompute,
    DeployedPipeline,
    DeployedQueue,
    ScaleEnvironment,
    WorkerEnvironment,
)
from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, Failure, explain, too_late
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import JobMessage
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.result import Usage
from cosmos_batch.contract.settings import ScalingSettings, WorkerSettings
from cosmos_batch.planning.instance_types import worker_resources

IDENTITY = Identity(model="m/m", engine="auto", configuration="d")


def test_a_request_typed_into_the_console_is_valid() -> None:
    request = Request.model_validate_json(
        '{"pipeline": "cosmos-reason2-2b", "input": "s3://my-bucket/a b+%.mp4", "prompt": "What?"}'
    )
    assert request.input == "s3://my-bucket/a b+%.mp4"
    assert request.parameters == Parameters()


def test_a_request_refuses_unknown_fields_by_name() -> None:
    with pytest.raises(ValidationError) as raised:
        Request.model_validate({"pipeline": "p", "promt": "typo", "input": "a.mp4"})
    text = explain(raised.value)
    assert "promt: unknown field" in text
    assert "input: 'a.mp4': must be an S3 URI" in text


def test_a_request_does_not_serialize_its_task_token() -> None:
    request = Request.model_validate({"pipeline": "p", "callback": "token-123"})
    assert request.callback is not None
    assert request.callback.get_secret_value() == "token-123"
    assert "token-123" not in request.model_dump_json()
    assert "token-123" not in repr(request)


def test_an_explanation_does_not_show_a_token() -> None:
    with pytest.raises(ValidationError) as raised:
        Request.model_validate({"pipeline": "p", "callback": ["token-123"]})
    assert "token-123" not in explain(raised.value)


@given(message=st.text(max_size=MESSAGE_LIMIT), limit=st.integers(256, 4096))
def test_a_shortened_cause_is_a_valid_error(message: str, limit: int) -> None:
    error = Error(code="InvalidInput", message=message, remedy="Do this.")
    cause = error.cause(limit)
    assert json.loads(cause)["code"] == "InvalidInput"
    if all(" " <= c < "\x7f" and c not in '"\\' for c in message):
        assert len(cause) <= limit


def test_a_cause_holds_a_message_and_a_remedy_of_full_length() -> None:
    error = Error(code="ModelUnavailable", message="m" * MESSAGE_LIMIT, remedy="r" * MESSAGE_LIMIT, retryable=True)
    assert Error.model_validate_json(error.cause()) == error


def test_a_cause_fits_into_what_vams_stores() -> None:
    error = Error(code="ModelUnavailable", message="🤖" * MESSAGE_LIMIT, remedy="🤖" * MESSAGE_LIMIT)
    assert len(f"{error.code}: {error.cause()}".encode()) <= 16 * 1024


def test_a_failure_carries_its_error_as_json() -> None:
    failure = Failure("ModelUnavailable", "m" * 5000, "r", retryable=True)
    assert len(failure.error.message) == MESSAGE_LIMIT
    assert Error.model_validate_json(str(failure)) == failure.error


def document(**changes: object) -> ReasonerDocument:
    fields = {
        "model": "nvidia/Cosmos-Reason2-2B", "model_size": "2B", "input_file": "a.mp4", "timestamp": "20260410-165029",
        "system_prompt": "s", "user_prompt": "u", "result": "r", "job_logs": "l", "job_id": "j", "pipeline": "p",
        "revision": "c", "engine": "e", "finish_reason": "stop", "usage": Usage(prompt_tokens=1, completion_tokens=2),
        "timings": {}, "parameters": Parameters(), "input_version_id": None, "batch_job_id": "b",
    }  # fmt: skip
    return ReasonerDocument.model_validate({**fields, **changes})


def test_the_first_fields_of_the_document_are_those_of_vams() -> None:
    names = list(json.loads(document(reasoning="because").to_json()))
    assert names[:9] == [
        "model", "modelSize", "inputFile", "timestamp", "systemPrompt", "userPrompt", "result", "jobLogs", "reasoning",
    ]  # fmt: skip
    assert json.loads(document().to_json())["attribution"] == "Built on NVIDIA Cosmos"
    named = document(reasoning="because", question="q", input_uri="s3://my-bucket/a.mp4")
    assert list(json.loads(named.to_json()))[:9] == names[:9]


def test_a_document_of_a_model_that_is_not_nvidias_does_not_name_nvidia() -> None:
    assert attribution_of("nvidia/Cosmos-Reason2-2B") == "Built on NVIDIA Cosmos"
    own = document(model="cosmos-batch/demo-reason", attribution=attribution_of("cosmos-batch/demo-reason"))
    assert "NVIDIA" not in own.to_json()


def test_a_document_without_reasoning_has_no_such_field() -> None:
    assert "reasoning" not in json.loads(document().to_json())


def test_an_environment_is_read_as_it_was_written() -> None:
    worker = WorkerEnvironment(
        aws_batch_job_id="b", pipeline="p", model="m/m", engine="transformers", queue_url="q", state_table="t",
        state_bucket="s", model_bucket="m", model_store="/mnt/models", worker=WorkerSettings(idle_seconds=7),
    )  # fmt: skip
    assert WorkerEnvironment.read(worker.variables()) == worker
    compute = DeployedCompute(
        id="p", queue_url="q", job_queue="jq", job_definition="jd", max_workers=3, vcpus=12, max_life_hours=24
    )
    scale = ScaleEnvironment(
        state_table="t",
        state_bucket="s",
        nudge_queue_url="n",
        pipeline_parameters=["one"],
        scaling=ScalingSettings(),
    )
    assert ScaleEnvironment.read(scale.variables()) == scale
    deployed = DeployedPipeline(queue=DeployedQueue(id="p", queue_url="q", identity=IDENTITY), compute=compute)
    assert DeployedPipeline.read(deployed.model_dump_json()) == deployed
    assert all(isinstance(value, str) for value in scale.variables().values())


def test_older_functions_read_a_parameter_with_unknown_fields() -> None:
    """CloudFormation changes the parameter first, and the code of the functions after it."""
    compute = {"id": "p", "queueUrl": "q", "jobQueue": "jq", "jobDefinition": "jd", "maxWorkers": 1, "vcpus": 4}
    identity = IDENTITY.model_dump(mode="json")
    later = {
        "queue": {"id": "p", "queueUrl": "q", "identity": identity, "new": 1},
        "compute": {**compute, "maxLifeHours": 1.0, "new": 1},
    }
    assert DeployedPipeline.read(json.dumps({**later, "new": 1})).compute.job_definition == "jd"


def test_a_wrong_environment_names_its_variables() -> None:
    with pytest.raises(RuntimeError, match="STATE_TABLE"):
        ScaleEnvironment.read({"PIPELINE_PARAMETERS": "[]"})


def test_a_worker_reserves_the_smallest_share_of_one_gpu_among_its_types() -> None:
    two, eight = (next(each for each in PIPELINES if each.id == f"cosmos-reason2-{size}") for size in ("2b", "8b"))
    assert worker_resources(eight, ["g6e.12xlarge", "g6e.24xlarge"]).vcpus == 12
    assert worker_resources(eight, ["g6e.12xlarge"]).memory_mib // 1024 == 88
    assert worker_resources(two, ["g6e.12xlarge", "g5.12xlarge"]).memory_mib // 1024 == 44


def test_a_message_of_the_current_version_is_read_with_aware_times() -> None:
    body = {
        "schemaVersion": 2,
        "taskToken": "t",
        "job": {
            "jobId": "j", "executionArn": "a", "pipeline": "p", "timestamp": "20260410-165029", "prompt": "u",
            "input": {"bucket": "b", "key": "k", "versionId": None, "etag": '"e"', "size": 1}, "promptUri": None,
            "systemPrompt": "s", "parameters": {}, "document": {"bucket": "b", "key": "d"}, "invalidateModel": False,
            "createdAt": "2026-04-10T16:50:29.123Z", "deadline": "2026-04-13T16:50:29+00:00",
        },
    }  # fmt: skip
    message = JobMessage.model_validate_json(json.dumps(body))
    assert message.job.created_at == datetime(2026, 4, 10, 16, 50, 29, 123000, UTC)
    with pytest.raises(ValidationError, match="timezone"):
        JobMessage.model_validate_json(json.dumps(body).replace("29.123Z", "29"))


def test_fields_that_do_not_apply_are_absent_from_the_document() -> None:
    assert not {"notes", "data", "dataError"} & set(json.loads(document().to_json()))
    asked = Parameters(json_schema={"type": "array"})
    said = json.loads(document(parameters=asked, data=[1], notes=["Sampled down."]).to_json())
    assert (said["data"], said["notes"], "dataError" in said) == ([1], ["Sampled down."], False)
    said = json.loads(document(parameters=asked, data_error="holds no JSON").to_json())
    assert (said["data"], said["dataError"]) == (None, "holds no JSON")


def test_the_times_of_frames_are_on_a_single_line_of_the_document() -> None:
    text = document(frame_times=[0.0, 0.25, 0.5]).to_json()
    assert '  "frameTimes": [0.0, 0.25, 0.5],\n' in text
    assert json.loads(text)["frameTimes"] == [0.0, 0.25, 0.5]
    assert "frameTimes" not in document().to_json()


def test_messages_of_earlier_versions_are_read() -> None:
    """A queue may hold jobs that an older `plan` wrote."""
    parameters = Parameters.model_validate_json('{"maxTokens": 9, "seed": null, "fps": null}')
    assert (parameters.max_tokens, parameters.long_video, parameters.json_schema) == (9, "sampleDown", None)


def test_a_deadline_that_has_passed_may_be_tried_again_with_another() -> None:
    error = too_late(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert (error.code, error.retryable) == ("TimedOut", True)
    assert "(2026-01-02 03:04:05 UTC)" in error.message and "later deadline" in error.remedy
    assert too_late() == error.model_copy(update={"message": error.message.replace(" (2026-01-02 03:04:05 UTC)", "")})
