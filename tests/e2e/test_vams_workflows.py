"""Workflows in the form that VAMS 2.5 generates, unchanged, against the deployed function."""

import json
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.vams_machines import JOB, create_machine, definition_2_5, make_functions
from tests.support.deployed_app import TWO_B, App, configuration, running_app, wait_for

ROOT = "imported/robots/arm/"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("vams25")
    with running_app(folder, configuration(folder), make_functions) as running:
        yield running


@pytest.fixture(scope="module")
def machine(app: App) -> str:
    return create_machine(app.cloud, definition_2_5(app.vams_function(TWO_B), TWO_B, {"MODEL_SIZE": "2B"}))


def run(app: App, machine: str, path: str, metadata: dict[str, Any] | None = None) -> str:
    """Start the workflow of VAMS on a file of an imported asset, whose folder does not have the asset's name."""
    content = {
        "bucketAsset": app.assets,
        "bucketAssetAuxiliary": "auxiliary",
        "inputAssetLocationKey": ROOT,
        "inputAssetFileKey": f"{ROOT}{path}",
        "databaseId": "robots",
        "assetId": "x5f0c2f1e",
        "inputMetadata": json.dumps({"VAMS": {"fileMetadata": metadata or {}}}),
        "workflowDatabaseId": "GLOBAL",
        "workflowId": TWO_B,
        "executingUserName": "someone@example.com",
        "executingRequestContext": {"http": {"method": "POST"}},
    }
    arn: str = app.client("stepfunctions").start_execution(stateMachineArn=machine, input=json.dumps(content))[
        "executionArn"
    ]
    return arn


def failures(app: App, arn: str) -> list[dict[str, str]]:
    """Return error and cause of each failed try of the pipeline's step."""
    history = app.client("stepfunctions").get_execution_history(executionArn=arn, maxResults=1000)["events"]
    return [event["taskFailedEventDetails"] for event in history if event["type"] == "TaskFailed"]


@pytest.mark.parametrize("path", ["p.png", "left/cam 1/p.png"])
def test_the_document_reaches_the_asset_beside_its_file(app: App, machine: str, picture: Path, path: str) -> None:
    app.upload(f"{ROOT}{path}", picture)
    ended = app.ended(run(app, machine, path, {"COSMOS_REASON_PROMPT": "What is it?"}))
    assert ended["status"] == "SUCCEEDED", ended
    result = json.loads(ended["output"])[f"{JOB}-{TWO_B}"]["output"]
    assert result["outputs"][0]["contentType"] == "application/json"
    directory = f"{ROOT}{path}".rpartition("/")[0]
    [document] = [key for key in app.keys(f"{directory}/") if "_CosmosReason_" in key.removeprefix(directory)]
    assert re.fullmatch(re.escape(f"{directory}/p_CosmosReason_") + r"\d{8}-\d{6}\.json", document)
    body = app.client("s3").get_object(Bucket=app.assets, Key=document)["Body"].read()
    assert json.loads(body)["userPrompt"] == "What is it?"
    assert app.keys("pipelines/") == [], "all of it was moved"


@pytest.mark.slow  # VAMS tries it three times
def test_a_permanent_failure_is_answered_thrice_and_inferred_never_again(app: App, machine: str) -> None:
    app.upload(f"{ROOT}broken.png", b"no picture")
    arn = run(app, machine, "broken.png")
    ended = app.ended(arn, 90)
    assert (ended["status"], ended["error"], ended["cause"]) == (
        "FAILED",
        "States.TaskFailed",
        "WorkflowProcessingJobFailed",
    )
    tries = failures(app, arn)
    assert len(tries) == 3 and len({one["cause"] for one in tries}) == 1
    assert json.loads(tries[0]["cause"])["code"] == tries[0]["error"] == "InvalidInput"
    [ours] = app.executions(f"{ROOT}broken.png")
    assert app.row(ours["executionArn"]).attempts <= 1


def test_a_stop_by_a_person_is_not_undone_by_the_retry(app: App, machine: str, picture: Path) -> None:
    app.upload(f"{ROOT}slow.png", picture)
    arn = run(app, machine, "slow.png", {"COSMOS_REASON_PROMPT": json.dumps({"seconds": 600})})
    [ours] = wait_for(lambda: app.executions(f"{ROOT}slow.png"), 180, "no execution was started")
    wait_for(lambda: app.jobs.get(ours["name"]), 180, "it was never planned")
    app.client("stepfunctions").stop_execution(executionArn=ours["executionArn"], cause="by a person")
    assert app.ended(arn, 90)["status"] == "FAILED"
    assert [failure["error"] for failure in failures(app, arn)] == ["Cancelled"] * 3
    assert len(app.executions(f"{ROOT}slow.png")) == 1


def test_vams_retries_a_retryable_failure(app: App, machine: str, picture: Path) -> None:
    """Our state machine times out after five seconds, and is restored before VAMS retries."""
    stepfunctions = app.client("stepfunctions")
    definition = stepfunctions.describe_state_machine(stateMachineArn=app.machine)["definition"]
    app.upload(f"{ROOT}late.png", picture)
    go = app.folder / "go"
    stepfunctions.update_state_machine(
        stateMachineArn=app.machine, definition=json.dumps({**json.loads(definition), "TimeoutSeconds": 5})
    )
    try:
        arn = run(
            app, machine, "late.png", {"COSMOS_REASON_PROMPT": json.dumps({"until": str(go), "text": "At last."})}
        )
        [first] = wait_for(lambda: app.executions(f"{ROOT}late.png"), 180, "no execution was started")
        assert app.ended(first["executionArn"])["status"] == "TIMED_OUT"
    finally:
        stepfunctions.update_state_machine(stateMachineArn=app.machine, definition=definition)
    # An answer that came before VAMS is told of the timeout would be that of the first try.
    wait_for(lambda: failures(app, arn), 180, "VAMS was not told of the timeout")
    go.touch()
    assert app.ended(arn, 120)["status"] == "SUCCEEDED"
    errors = [failure["error"] for failure in failures(app, arn)]
    assert set(errors) == {"TimedOut"} and len(app.executions(f"{ROOT}late.png")) == len(errors) + 1


def test_ten_retries_at_once_are_one_run_and_ten_answers(app: App, picture: Path) -> None:
    """Ten tasks wait, each with its token, and call the function at the same time."""
    app.upload(f"{ROOT}storm.png", picture)
    queue = app.client("sqs").create_queue(QueueName="storm")["QueueUrl"]
    waits = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue, "MessageBody": {"token.$": "$$.Task.Token"}},
        "End": True,
    }
    machine = create_machine(app.cloud, {"StartAt": "Wait", "States": {"Wait": waits}})
    stepfunctions = app.client("stepfunctions")
    theirs = [stepfunctions.start_execution(stateMachineArn=machine)["executionArn"] for _ in range(10)]
    tokens: list[str] = []

    def collect() -> bool:
        messages = app.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        tokens.extend(json.loads(message["Body"])["token"] for message in messages)
        return len(set(tokens)) == 10

    wait_for(collect, 180, "ten tokens never came")
    body = {
        "inputS3AssetFilePath": f"s3://{app.assets}/{ROOT}storm.png",
        "outputS3AssetFilesPath": f"s3://{app.assets}/pipelines/{TWO_B}/{JOB}/output/{uuid.uuid4().hex}/files/",
        "inputAssetLocationKey": ROOT,
    }
    function = app.vams_function(TWO_B)

    def call(token: str) -> str:
        payload = json.dumps({"body": {**body, "TaskToken": token}})
        answer = app.client("lambda").invoke(FunctionName=function, Payload=payload)
        return str(json.loads(json.loads(answer["Payload"].read())["body"])["jobId"])

    with ThreadPoolExecutor(10) as threads:
        [run_id] = set(threads.map(call, set(tokens)))
    assert [app.ended(arn)["status"] for arn in theirs] == ["SUCCEEDED"] * 10
    [ours] = app.executions(f"{ROOT}storm.png")
    assert ours["name"] == run_id and app.row(ours["executionArn"]).attempts == 1
