"""Every way to start a job and to receive its result, through the deployed template."""

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.catalogue.pipelines import DEFAULT_PROMPT
from tests.e2e.grants import covers, grants, uses
from tests.e2e.unused_grants import UNUSED, WITHOUT_RESOURCE
from tests.support.deployed_app import EIGHT_B, TWO_B, App, error_of, wait_for
from tests.support.media_files import video
from tests.support.vams_workflow import Vams


@pytest.fixture(scope="module")
def use_code_build() -> bool:
    """Deploy with CodeBuild, because every call is compared with what is granted."""
    return True


TRICKY = "Was siehst du? 🤖\nZeile zwei: 日本語, a+b, 100 %"


def encoded(text: str) -> str:
    """Return a header's value as S3 accepts it: one RFC 2047 encoded word, longer than the RFC's 75 characters."""
    return f"=?utf-8?b?{base64.b64encode(text.encode()).decode()}?="


def sidecar(prompt: str) -> bytes:
    return json.dumps({"COSMOS_REASON_PROMPT": prompt}).encode()


def test_an_upload_with_metadata_is_answered(app: App, clip: Path) -> None:
    app.upload("meta/clip.mp4", clip, prompt="What does the arm do?")
    ended = app.execution_of("meta/clip.mp4")
    assert ended["status"] == "SUCCEEDED"
    document = app.document(ended["executionArn"])
    assert document["userPrompt"] == document["result"] == "What does the arm do?"
    assert document["pipeline"] == TWO_B
    [key] = [key for key in app.keys("meta/") if key.endswith(".json")]
    assert re.fullmatch(r"meta/clip_CosmosReason_\d{8}-\d{6}\.json", key)


def test_a_message_group_for_each_caller_shares_the_queue_fairly(app: App, clip: Path) -> None:
    """SQS serves the message groups of a standard queue in turn when one of them fills it."""
    app.upload("ann/clip.mp4", clip, prompt="Ann asks")
    app.upload("bob/clip.mp4", clip, prompt="Bob asks")
    stepfunctions = app.client("stepfunctions")
    groups = []
    for key in ("ann/clip.mp4", "bob/clip.mp4"):
        arn = app.execution_of(key)["executionArn"]
        events = stepfunctions.get_execution_history(executionArn=arn)["events"]
        [sent] = [event["taskScheduledEventDetails"] for event in events if "taskScheduledEventDetails" in event][:1]
        groups.append(json.loads(sent["parameters"]).get("MessageGroupId"))
    assert len({*groups}) == 2 and None not in groups


def test_upload_with_a_prompt_that_is_not_ascii(app: App, clip: Path) -> None:
    app.upload("meta2/clip.mp4", clip, prompt=encoded(TRICKY))
    assert app.document(app.execution_of("meta2/clip.mp4")["executionArn"])["userPrompt"] == TRICKY


def test_an_upload_with_tags_is_answered(app: App, clip: Path) -> None:
    app.client("s3").put_object(
        Bucket=app.assets, Key="tags/clip.mp4", Body=clip.read_bytes(), Tagging="COSMOS_REASON_PROMPT=Count+the+cubes"
    )
    assert app.document(app.execution_of("tags/clip.mp4")["executionArn"])["userPrompt"] == "Count the cubes"


def test_a_file_that_is_uploaded_after_its_sidecar_uses_it(app: App, picture: Path) -> None:
    app.upload("before/p.png.metadata.json", sidecar(TRICKY))
    app.upload("before/p.png", picture, prompt="not this one")
    assert app.document(app.execution_of("before/p.png")["executionArn"])["userPrompt"] == TRICKY
    assert len(app.executions("before/p.png")) == 1


def test_a_file_that_is_uploaded_before_its_sidecar_uses_it(app: App, picture: Path) -> None:
    app.upload("after/p.png", picture)
    app.upload("after/p.png.metadata.json", sidecar("From the sidecar"))
    assert app.document(app.execution_of("after/p.png")["executionArn"])["userPrompt"] == "From the sidecar"
    assert len(app.executions("after/p.png")) == 1


def test_an_auto_triggered_file_waits_for_its_sidecar(app: App, tmp_path: Path) -> None:
    app.upload("auto/c.webm", video(tmp_path / "c.webm"))
    app.upload("auto/c.webm.metadata.json", sidecar("In time"))
    ended = app.execution_of("auto/c.webm")
    document = app.document(ended["executionArn"])
    assert (document["userPrompt"], document["pipeline"]) == ("In time", EIGHT_B)
    assert len(app.executions("auto/c.webm")) == 1


def test_an_auto_triggered_file_runs_without_a_prompt(app: App, tmp_path: Path) -> None:
    app.upload("auto2/c.webm", video(tmp_path / "c.webm"))
    assert app.document(app.execution_of("auto2/c.webm")["executionArn"])["userPrompt"] == DEFAULT_PROMPT


def test_an_upload_may_name_its_pipeline(app: App, picture: Path) -> None:
    app.upload("named/p.png", picture, prompt="x", COSMOS_PIPELINE=EIGHT_B)
    assert app.document(app.execution_of("named/p.png")["executionArn"])["pipeline"] == EIGHT_B


def test_uploads_without_a_prompt_and_our_own_objects_start_nothing(app: App, picture: Path) -> None:
    app.upload("quiet/p.png", picture)
    app.upload("quiet/notes.txt", b"hello")
    app.upload("quiet/p_CosmosReason_20260410-165029.json", b"{}", prompt="x")
    app.upload("quiet/copy.png", picture, **{"cosmos-batch-job": "some-job", "COSMOS_REASON_PROMPT": "x"})
    app.upload("pipelines/p.png", picture, prompt="x")
    app.upload("loud/p.png", picture, prompt="x")
    app.execution_of("loud/p.png")
    inputs = [json.loads(described(app, execution)["input"])["input"] for execution in app.executions()]
    assert not [file for file in inputs if "/quiet/" in file or "/pipelines/" in file or file.endswith(".json")]


def described(app: App, execution: dict[str, Any]) -> dict[str, Any]:
    description: dict[str, Any] = app.client("stepfunctions").describe_execution(executionArn=execution["executionArn"])
    return description


def test_started_from_the_console(app: App, picture: Path) -> None:
    app.upload("console/p.png", picture)
    arn = app.start({"pipeline": TWO_B, "input": f"s3://{app.assets}/console/p.png", "prompt": "From the console"})
    ended = app.ended(arn)
    assert ended["status"] == "SUCCEEDED"
    assert app.document(arn)["userPrompt"] == "From the console"
    result = json.loads(ended["output"])
    assert result["outputs"][0]["uri"] == app.row(arn).document


def test_a_task_from_a_files_metadata(app: App, picture: Path) -> None:
    app.upload("task/p.png", picture, prompt="the cube", COSMOS_REASON_TASK="2d-grounding", COSMOS_REASON_TOP_P="0.5")
    document = app.document(app.execution_of("task/p.png")["executionArn"])
    assert document["userPrompt"] == "the cube"
    assert document["question"].startswith("Locate the accurate bounding box of the cube. Return a json")
    assert (document["parameters"]["topP"], document["parameters"]["temperature"]) == (0.5, 0.7)
    assert document["data"] is None and "JSON" in document["dataError"], "the scripted engine says its prompt"


def test_a_wrong_setting_of_a_file_is_named_where_its_uploader_sees_it(app: App, picture: Path) -> None:
    app.upload("wrong/p.png", picture, prompt="What?", COSMOS_REASON_FPS="-1")
    ended = described(app, app.execution_of("wrong/p.png"))
    assert ended["status"] == "FAILED"
    assert "fps: '-1': Input should be greater than 0" in ended["cause"]
    assert "fps: '-1'" in error_beside(app, "wrong/p")["message"]


def error_beside(app: App, stem: str) -> dict[str, Any]:
    """Return the error in the document beside an uploaded file."""
    [key] = wait_for(lambda: [one for one in app.keys(stem) if "_CosmosError_" in one], 180, "no document of the error")
    assert re.fullmatch(rf"{stem}_CosmosError_\d{{8}}-\d{{6}}\.json", key)
    document = json.loads(app.client("s3").get_object(Bucket=app.assets, Key=key)["Body"].read())
    assert document["inputFile"].startswith(f"s3://{app.assets}/{stem}.")
    error: dict[str, Any] = document["error"]
    return error


def test_an_unknown_setting_is_reported_beside_its_file(app: App, picture: Path) -> None:
    app.upload("misspelt/p.png", picture, COSMOS_REASON_FSP="2")
    error = error_beside(app, "misspelt/p")
    assert (error["code"], error["message"]) == (
        "InvalidInput",
        "COSMOS_REASON_FSP: there is no such setting; is COSMOS_REASON_FPS meant?",
    )
    assert len(app.executions("misspelt/p.png")) == 1


def test_a_sidecar_that_is_no_json_is_reported_beside_its_file(app: App, picture: Path) -> None:
    app.upload("broken/p.png", picture)
    app.upload("broken/p.png.metadata.json", b"COSMOS_REASON_PROMPT=What happens?")
    assert "p.png.metadata.json: is no JSON: Expecting value" in error_beside(app, "broken/p")["message"]
    app.upload("broken/p.png.metadata.json", sidecar("What happens?"))
    wait_for(lambda: app.keys("broken/p_CosmosReason_"), 180, "put right, it is not answered")


def test_an_answer_fits_its_json_schema(app: App, picture: Path) -> None:
    app.upload("console/s.png", picture)
    prompt = 'Say what you see, such as [{"label": "cube"}].'
    parameters = {"jsonSchema": {"type": "array", "items": {"type": "object"}}}
    place = {"pipeline": TWO_B, "input": f"s3://{app.assets}/console/s.png"}
    arn = app.start({**place, "prompt": prompt, "parameters": parameters})
    app.ended(arn)
    document = app.document(arn)
    assert document["userPrompt"] == prompt
    assert document["question"].startswith(prompt) and "JSON Schema" in document["question"]
    assert document["data"] == [{"label": "cube"}] and document["result"] == document["question"]


@pytest.mark.parametrize(
    ("metadata", "parameters", "expected"),
    [
        ({"fileMetadata": {"COSMOS_REASON_PROMPT": "of the file"}}, {"prompt": "of the workflow"}, "of the file"),
        ({"fileMetadata": {"COSMOS_REASON_PROMPT": "  "}}, {"prompt": "of the workflow"}, "of the workflow"),
        ({}, {"PROMPT": "IN CAPITALS"}, "IN CAPITALS"),
        ({"assetMetadata": {"COSMOS_REASON_PROMPT": "of the asset"}}, {}, DEFAULT_PROMPT),
        ({}, {"prompt": " ", "MODEL_TYPE": "reason", "MODEL_SIZE": "2B"}, DEFAULT_PROMPT),
    ],
)
def test_vams_jobs_take_the_prompt_of_highest_priority(
    app: App, picture: Path, metadata: dict[str, Any], parameters: dict[str, Any], expected: str
) -> None:
    app.upload("asset-1/p.png", picture)
    vams = Vams.of(app)
    arn = vams.start("asset-1/p.png", metadata, parameters)
    ended = app.ended(arn)
    assert ended["status"] == "SUCCEEDED", ended
    [key] = app.keys(vams.output_of(arn))
    document = json.loads(app.client("s3").get_object(Bucket=app.assets, Key=key)["Body"].read())
    assert document["userPrompt"] == expected


def test_vams_keeps_the_directory_within_the_asset(app: App, picture: Path) -> None:
    app.upload("base/asset-7/clips/day 1/p.png", picture)
    vams = Vams.of(app)
    arn = vams.start("base/asset-7/clips/day 1/p.png", asset_id="asset-7")
    assert app.ended(arn)["status"] == "SUCCEEDED"
    [key] = app.keys(vams.output_of(arn))
    assert re.fullmatch(re.escape(vams.output_of(arn)) + r"clips/day 1/p_CosmosReason_\d{8}-\d{6}\.json", key)


def test_a_failure_is_reported_to_vams(app: App) -> None:
    vams = Vams.of(app)
    name = f"{'never-there-' * 60}.png"
    error = error_of(app.ended(vams.start(f"asset-1/{name}")))
    assert error["code"] == "InvalidInput"
    assert name in error["message"] and error["remedy"], "nothing is cut from what VAMS is told"


def test_parameters_for_another_pipeline_are_reported_to_vams(app: App, picture: Path) -> None:
    app.upload("asset-1/p.png", picture)
    ended = app.ended(Vams.of(app).start("asset-1/p.png", parameters={"MODEL_SIZE": "8B"}))
    assert error_of(ended)["code"] == "InvalidInput"


@pytest.mark.parametrize(
    "event", [{"body": "not json"}, {"body": "[]"}, {"body": {"inputS3AssetFilePath": "s3://a-bucket/b"}}, {}]
)
def test_vams_gets_its_own_mistakes_back_at_once(app: App, event: dict[str, Any]) -> None:
    answer = app.client("lambda").invoke(FunctionName=app.vams_function(TWO_B), Payload=json.dumps(event))
    payload = json.loads(answer["Payload"].read())
    assert 400 <= payload["statusCode"] < 500
    assert json.loads(payload["body"])["remedy"]


def waiting_in_the_queue(app: App, vams: Vams, key: str, **arguments: Any) -> tuple[str, str]:
    """Start VAMS's execution; return it and ours, once ours waits for its worker."""
    before = {execution["executionArn"] for execution in app.executions()}
    theirs = vams.start(key, **arguments)
    [ours] = wait_for(
        lambda: {execution["executionArn"] for execution in app.executions()} - before,
        20,
        "no execution of ours was started",
    )
    wait_for(lambda: (row := app.jobs.get(ours.rsplit(":", 1)[-1])) and row.state == "RUNNING", 180, "never ran")
    return theirs, ours


def test_a_stopped_execution_calls_vams_back(app: App, picture: Path) -> None:
    app.upload("asset-1/slow.png", picture)
    script = {"fileMetadata": {"COSMOS_REASON_PROMPT": json.dumps({"seconds": 60})}}
    theirs, ours = waiting_in_the_queue(app, Vams.of(app), "asset-1/slow.png", metadata=script)
    app.client("stepfunctions").stop_execution(executionArn=ours, error="Stopped", cause="by a person")
    assert error_of(app.ended(theirs))["code"] == "Cancelled"
    wait_for(lambda: app.row(ours).state == "CANCELLED", 180, "the row does not say so")


def test_an_execution_that_times_out_calls_vams_back(app: App, picture: Path) -> None:
    """The machine's own timeout of days is shortened here; it reports only the event of the execution's end."""
    stepfunctions = app.client("stepfunctions")
    definition = stepfunctions.describe_state_machine(stateMachineArn=app.machine)["definition"]
    app.upload("asset-1/slow.png", picture)
    script = {"fileMetadata": {"COSMOS_REASON_PROMPT": json.dumps({"seconds": 60})}}
    stepfunctions.update_state_machine(
        stateMachineArn=app.machine, definition=json.dumps({**json.loads(definition), "TimeoutSeconds": 5})
    )
    try:
        theirs, ours = waiting_in_the_queue(app, Vams.of(app), "asset-1/slow.png", metadata=script)
        assert app.ended(ours)["status"] == "TIMED_OUT"
        assert error_of(app.ended(theirs))["code"] == "TimedOut"
    finally:
        stepfunctions.update_state_machine(stateMachineArn=app.machine, definition=definition)


def test_a_request_past_its_deadline_calls_back(app: App, picture: Path) -> None:
    """The request has a task token and a deadline, as VAMS's requests do, and the deadline passes during inference."""
    app.upload("late/p.png", picture)
    vams = Vams.of(app)
    token_machine = {
        "StartAt": "Wait",
        "States": {
            "Wait": {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
                "Parameters": {"QueueUrl": queue(app), "MessageBody": {"token.$": "$$.Task.Token"}},
                "End": True,
            }
        },
    }
    machine = app.client("stepfunctions").create_state_machine(
        name="vams-late", definition=json.dumps(token_machine), roleArn="arn:aws:iam::123456789012:role/vams"
    )["stateMachineArn"]
    theirs = app.client("stepfunctions").start_execution(stateMachineArn=machine, input="{}")["executionArn"]
    [message] = wait_for(
        lambda: app.client("sqs").receive_message(QueueUrl=queue(app)).get("Messages"), 10, "no token was sent"
    )
    ours = app.start(
        {
            "pipeline": TWO_B,
            "input": f"s3://{app.assets}/late/p.png",
            "prompt": json.dumps({"seconds": 60}),
            "deadline": soon(),
            "callback": json.loads(message["Body"])["token"],
        }
    )
    assert error_of(app.ended(ours))["code"] == "TimedOut"
    assert error_of(app.ended(theirs))["code"] == "TimedOut"
    assert vams.function.startswith("vams")


def queue(app: App) -> str:
    url: str = app.client("sqs").create_queue(QueueName="tokens")["QueueUrl"]
    return url


def soon() -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC) + timedelta(seconds=4)).isoformat()


@pytest.mark.parametrize(
    "key",
    ["odd/a b+c%20d é 日本 (1).png", "odd/../up/p.png", "odd/../../../etc/p.png", "odd/UPPER.PNG", "odd/q?x=1&y#z.png"],
)
def test_any_key_is_only_data(app: App, picture: Path, key: str) -> None:
    app.upload(key, picture, prompt="x")
    ended = app.execution_of(key)
    assert ended["status"] == "SUCCEEDED"
    assert app.document(ended["executionArn"])["inputFile"] == key.rsplit("/", 1)[-1]
    vams = Vams.of(app)
    arn = vams.start(f"asset-1/{key}")
    app.upload(f"asset-1/{key}", picture)
    arn = vams.start(f"asset-1/{key}")
    assert app.ended(arn)["status"] == "SUCCEEDED"
    [written] = app.keys(vams.output_of(arn))
    assert ".." not in written.split("/")


def test_the_same_event_twice_is_one_run(app: App, picture: Path) -> None:
    app.upload("twice/p.png", picture, prompt="x")
    app.execution_of("twice/p.png")
    upload = app.client("lambda")
    [function] = [
        one["FunctionName"]
        for page in upload.get_paginator("list_functions").paginate()
        for one in page["Functions"]
        if "UPLOAD_QUEUE_URL" in one.get("Environment", {}).get("Variables", {})
    ]
    version = app.client("s3").head_object(Bucket=app.assets, Key="twice/p.png")["VersionId"]
    event = json.loads((Path(__file__).parent.parent / "events" / "s3_object_created.json").read_text())
    event["detail"]["bucket"]["name"] = app.assets
    event["detail"]["object"] |= {"key": "twice/p.png", "version-id": version}
    record = {"messageId": "1", "body": json.dumps(event), "eventSource": "aws:sqs", "attributes": {}}
    answer = upload.invoke(FunctionName=function, Payload=json.dumps({"Records": [record]}))
    assert "FunctionError" not in answer, answer["Payload"].read()
    assert len(app.executions("twice/p.png")) == 1


def test_documents_of_equal_names_and_times_do_not_overwrite_each_other(app: App, picture: Path, clip: Path) -> None:
    """Two inputs with one stem, one name in two folders of an asset, and two pipelines on one file write into one
    prefix.
    """
    output = f"s3://{app.assets}/same/"
    app.upload("asset-2/a/x.png", picture)
    app.upload("asset-2/b/x.png", picture)
    app.upload("asset-2/b/x.mp4", clip)
    requests = [(TWO_B, "a/x.png"), (TWO_B, "b/x.png"), (TWO_B, "b/x.mp4"), (EIGHT_B, "b/x.png")]

    def start(one: tuple[str, str]) -> str:
        pipeline, key = one
        return app.start({"pipeline": pipeline, "input": f"s3://{app.assets}/asset-2/{key}", "output": output})

    with ThreadPoolExecutor(4) as threads:
        arns = list(threads.map(start, requests))
    assert [app.ended(arn)["status"] for arn in arns] == ["SUCCEEDED"] * 4
    assert len(app.keys("same/")) == 4


def test_no_log_and_no_execution_contains_a_task_token(app: App, picture: Path) -> None:
    """VAMS's token is only in the state table: not in our execution's input and not in a log."""
    app.upload("asset-1/p.png", picture)
    vams = Vams.of(app)
    theirs = vams.start("asset-1/p.png")
    app.ended(theirs)
    history = app.client("stepfunctions").get_execution_history(executionArn=theirs)["events"]
    tokens = re.findall(r'"TaskToken\\?": ?\\?"([^"\\]+)', json.dumps(history, default=str))
    assert tokens
    for one in app.executions("asset-1/p.png"):
        assert "callback" not in (json.loads(one["input"]) or {})
        for token in tokens:
            assert token not in one["input"]
    for log in (app.cloud.home / "logs").rglob("*"):
        if log.is_file():
            for token in tokens:
                assert token not in log.read_text(errors="replace"), log


def test_logs_tell_of_each_job_and_of_no_prompt_and_no_token(app: App, clip: Path) -> None:
    prompt = "A prompt that nobody else may read"
    app.upload("secret/clip.mp4", clip, prompt=prompt)
    arn = app.execution_of("secret/clip.mp4")["executionArn"]
    events = app.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    [token] = {
        token
        for event in events
        for token in re.findall(r'"taskToken\\?": ?\\?"([^"\\]+)', json.dumps(event, default=str))
    }
    files = [log for log in (app.cloud.home / "logs").rglob("*") if log.is_file()]
    job = arn.rpartition(":")[2]
    telling = []
    for file in files:
        text = file.read_text(errors="replace")
        assert prompt not in text and token not in text, file
        telling += [line for line in text.splitlines() if job in line]
    records = [json.loads(line) for line in telling]  # structured, the functions' and the worker's
    reported = [
        record.get("logger", "a function")
        for record in records
        if (record.get("jobId"), record["message"]) == (job, "reported")
    ]
    assert sorted(reported) == ["a function", "cosmos_batch.worker.commit"]


def test_every_call_is_granted_and_every_grant_has_a_use(app: App, picture: Path) -> None:
    """The local cloud allows every call, so the recorded calls are compared with the deployed policies, both ways."""
    app.sweep()
    used, granted = {*uses(app)}, {*grants(app)}
    assert len({use.role for use in used}) >= 7, "the flows above went through every function but dead_letter"
    assert {use.action for use in used if use.resource is None} <= WITHOUT_RESOURCE
    refused = [use for use in used if not any(covers(grant, use) for grant in granted)]
    assert not refused, f"calls that AWS would refuse: {sorted(map(str, refused))}"
    idle = {grant for grant in granted if not any(covers(grant, use) for use in used)}
    needless = {grant for grant in idle if not any(entry.excuses(grant) for entry in UNUSED)}
    assert not needless, f"grants that nothing uses: {sorted(needless)}"
    outdated = {
        f"{role} {action}"
        for entry in UNUSED
        for role in entry.roles
        for action in entry.actions
        if not any((grant.role, grant.action) == (role, action) and entry.excuses(grant) for grant in granted)
    }
    assert not outdated, f"excuses for what is not granted: {sorted(outdated)}"
