"""VAMS 2.6 beside the app: its workflows, its orchestration bus, and its import function."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.metadata import PROMPT
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.deploy import deploy
from cosmos_batch.state import Runs
from infra.synth import synthesize
from tests.e2e.grants import covers, grants, uses
from tests.e2e.vams_machines import JOB, create_machine, definition_2_6, make_function, make_functions, run_files
from tests.support.deployed_app import TWO_B, App, configuration, running_app, wait_for

BUCKET, IMPORT, BUS, RECORD = "vams-assets", "vams-import", "vams-orchestration", "vams-record"
BASE, ASSET = "vamsroot/", "vamsroot/imported/arm/"  # the bucket's base prefix, and the root of an asset in it
ROLE = "arn:aws:iam::123456789012:role/vams-callbacks"
PREFIX = "vams.prod.execution.run.pipeline.0a1b2c3d"
SETTINGS: dict[str, Any] = {
    "version": "2.6",
    "importFunctionName": IMPORT,
    "buckets": [f"{BUCKET}/{BASE}"],
    "callbackRoleArn": ROLE,
    "orchestrationBusName": BUS,
}

# In the place of VAMS's import function: it keeps what it was asked, and answers as that of 2.6 does.
IMPORT_SOURCE = f"""
import json, time, boto3

def handler(event, context):
    key = f"{{time.time_ns()}}-{{event['RequestType']}}.json"
    boto3.client("s3").put_object(Bucket="{RECORD}", Key=key, Body=json.dumps(event).encode())
    if "refuse" in json.dumps(event["ResourceProperties"]):
        raise Exception("Failed creating pipeline: it is refused here")
    return {{"Data": {{}}}} if event["RequestType"] == "Delete" else {{"PhysicalResourceId": "p", "Data": {{}}}}
"""


def make_vams(cloud: LocalCloud) -> None:
    """Create what is in the account before our deployment: VAMS's bucket, bus, role and import function."""
    s3, iam = cloud.client("s3"), cloud.client("iam")
    for bucket in (BUCKET, RECORD):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    cloud.client("events").create_event_bus(Name=BUS)
    trust = {"Version": "2012-10-17", "Statement": []}
    iam.create_role(RoleName="vams-callbacks", AssumeRolePolicyDocument=json.dumps(trust))
    make_functions(cloud)
    make_function(cloud, IMPORT, IMPORT_SOURCE)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    folder = tmp_path_factory.mktemp("vams")
    with running_app(folder, configuration(folder, vams=SETTINGS), make_vams) as running:
        yield running


@dataclass(frozen=True)
class Workflow:
    """A workflow of VAMS 2.6, which writes a run's manifest to S3 and sends its location in the body."""

    app: App
    machine: str

    @classmethod
    def of(cls, app: App) -> "Workflow":
        return cls(app, create_machine(app.cloud, definition_2_6(app.vams_function(TWO_B), TWO_B, BASE)))

    def start(self, files: dict[str, str | None], prompts: dict[str, str] | None = None, manifest: bool = True) -> str:
        """Start a run on files of one asset, each a path and a version; return the ARN of VAMS's execution."""
        run = uuid.uuid4().hex
        inputs = f"{BASE}pipelines/workflowExecutionInputs/{run}"
        if manifest:
            self._put(f"{inputs}/pipeline1/manifest.json", self._manifest(run, files))
        self._put(f"{inputs}/pipeline1/config.json", {"PROMPT": "of the configuration"})
        records = [{"fileKey": f"/{path}", "metadata": {PROMPT: text}} for path, text in (prompts or {}).items()]
        asset = {"databaseId": "robots", "assetId": "xarm", "assetData": {}, "files": records}
        self._put(f"{inputs}/metadata.json", {"schemaVersion": 2, "assets": [asset]})
        content = {
            "workflowDatabaseId": "GLOBAL",
            "workflowId": TWO_B,
            "workflowExecutionId": run,
            "workflowExecutionS3InputOutputBucket": BUCKET,
            "outputAssetLocationKey": ASSET,
            "executingUserName": "someone@example.com",
            "executingRequestContext": {"http": {"method": "POST"}},
        }
        arn: str = self.app.client("stepfunctions").start_execution(
            stateMachineArn=self.machine, input=json.dumps(content), name=run
        )["executionArn"]
        return arn

    def moved(self, arn: str) -> dict[str, dict[str, Any]]:
        """Return the documents that VAMS has moved onto the asset at the end of a run, by their path within it."""
        output = json.loads(self.app.ended(arn)["output"])
        [moved] = [value["output"]["Payload"]["moved"] for name, value in output.items() if name.startswith("process-")]
        s3 = self.app.client("s3")
        return {path: json.loads(s3.get_object(Bucket=BUCKET, Key=f"{ASSET}{path}")["Body"].read()) for path in moved}

    def error(self, arn: str) -> dict[str, Any]:
        """Return our error as VAMS's error handler received it; the workflow itself fails with VAMS's own error."""
        ended = self.app.ended(arn, 90)
        assert (ended["status"], ended["error"]) == ("FAILED", "States.TaskFailed"), ended
        key = f"errors/{arn.rpartition(':')[2]}.json"
        failure = json.loads(self.app.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read())
        error: dict[str, Any] = json.loads(failure["Cause"])
        assert error["code"] == failure["Error"]
        return error

    @staticmethod
    def _files(run: str) -> str:
        return run_files(BASE, TWO_B).format(run)

    def _manifest(self, run: str, files: dict[str, str | None]) -> dict[str, Any]:
        return {
            "schemaVersion": 1,
            "inputFiles": [
                {
                    "relativePath": f"/{path}",
                    "databaseId": "robots",
                    "assetId": "xarm",
                    "assetRootS3Key": ASSET,
                    "bucket": BUCKET,
                    "key": f"{ASSET}{path}",
                    "versionId": version or "",
                }
                for path, version in files.items()
            ],
            "inputMetadataS3Location": f"s3://{BUCKET}/{BASE}pipelines/workflowExecutionInputs/{run}/metadata.json",
            "outputs": {"bucket": BUCKET, "files": self._files(run)},
            "systemConfig": {"orchestrationEventPrefix": PREFIX},
        }

    def _put(self, key: str, content: dict[str, Any]) -> None:
        self.app.client("s3").put_object(Bucket=BUCKET, Key=key, Body=json.dumps(content).encode())


def put(app: App, path: str, body: bytes | Path) -> str:
    """Upload a file of the asset and return its version."""
    data = body.read_bytes() if isinstance(body, Path) else body
    version: str = app.client("s3").put_object(Bucket=BUCKET, Key=f"{ASSET}{path}", Body=data)["VersionId"]
    return version


def answers_to(app: App, arn: str) -> list[str]:
    """Return how each try of the pipeline's step was answered."""
    history = app.client("stepfunctions").get_execution_history(executionArn=arn, maxResults=1000)["events"]
    first_step = [event for event in history if event["type"] in ("TaskSucceeded", "TaskFailed", "TaskTimedOut")]
    return [event["type"] for event in first_step if "waitForTaskToken" in json.dumps(event, default=str)]


def asked_of_vams(app: App) -> list[dict[str, Any]]:
    """Return the requests to the import function, in order."""
    s3 = app.client("s3")
    keys = sorted(item["Key"] for item in s3.list_objects_v2(Bucket=RECORD).get("Contents", []))
    return [json.loads(s3.get_object(Bucket=RECORD, Key=key)["Body"].read()) for key in keys]


def test_two_files_return_two_documents_and_one_callback(app: App, picture: Path, clip: Path) -> None:
    wanted = put(app, "left/p.png", picture)
    put(app, "left/p.png", b"no picture any more")
    put(app, "right/c.mp4", clip)
    workflow = Workflow.of(app)
    arn = workflow.start({"left/p.png": wanted, "right/c.mp4": None}, {"right/c.mp4": "What moves?"})
    ended = app.ended(arn)
    assert ended["status"] == "SUCCEEDED", ended
    assert json.loads(ended["output"])[f"{JOB}-{TWO_B}"]["output"] == {"files": 2}
    assert answers_to(app, arn) == ["TaskSucceeded"]
    [run] = executions_since(app, arn)
    row = Runs(app.table).get(run)
    assert row is not None and (row.state, row.items) == ("SUCCEEDED", 2), "both files are one run"
    documents = {path.partition("/")[0]: one for path, one in workflow.moved(arn).items()}
    assert {directory: document["userPrompt"] for directory, document in documents.items()} == {
        "left": "of the configuration",
        "right": "What moves?",
    }
    assert documents["left"]["inputVersionId"] == wanted


def test_the_good_file_of_a_mixed_run_reaches_the_asset_and_the_bad_file_is_named_there(
    app: App, picture: Path
) -> None:
    put(app, "good/p.png", picture)
    workflow = Workflow.of(app)
    arn = workflow.start({"good/p.png": None, "never/there.png": None})
    moved = workflow.moved(arn)
    assert answers_to(app, arn) == ["TaskSucceeded"], "nothing of it is tried again"
    [document] = [one for path, one in moved.items() if path.startswith("good/p_CosmosReason_")]
    assert document["result"]
    [errors] = [one for path, one in moved.items() if path.startswith("CosmosBatchErrors_")]
    [failed] = errors["failed"]
    assert (errors["files"], failed["file"], failed["error"]["code"]) == (2, "never/there.png", "InvalidInput")
    assert f"s3://{BUCKET}/{ASSET}never/there.png does not exist" in failed["error"]["message"]


@pytest.mark.slow  # the Lambda's tests have the same errors
def test_a_run_without_any_result_fails_once_for_each_try_with_all_errors(app: App) -> None:
    workflow = Workflow.of(app)
    arn = workflow.start({f"{name}/there.png": None for name in ("never", "nowhere")})
    error = workflow.error(arn)
    files = "never/there.png (InvalidInput), nowhere/there.png (InvalidInput)"
    assert error["message"].startswith(f"2 of 2 files failed: {files}. ") and error["remedy"]
    assert answers_to(app, arn) == ["TaskFailed"] * 3
    assert len(executions_since(app, arn)) == 1


def executions_since(app: App, arn: str) -> list[str]:
    """Return our executions that began after an execution of VAMS."""
    began = app.client("stepfunctions").describe_execution(executionArn=arn)["startDate"]
    return [execution["name"] for execution in app.executions() if execution["startDate"] >= began]


@pytest.mark.slow  # the Lambda's tests have the same error
def test_a_missing_manifest_is_reported_at_once(app: App) -> None:
    workflow = Workflow.of(app)
    error = workflow.error(workflow.start({}, manifest=False))
    assert error["code"] == "InvalidInput"
    place = f"s3://{BUCKET}/{BASE}pipelines/workflowExecutionInputs/"
    assert error["message"].startswith(f"The manifest does not exist: {place}")


def test_executions_are_registered_on_the_bus_and_can_be_stopped(app: App, picture: Path) -> None:
    """VAMS's abort stops the registered executions."""
    sqs, events = app.client("sqs"), app.client("events")
    queue = sqs.create_queue(QueueName="heard")["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    pattern = json.dumps({"detail-type": ["pipeline.execution.register"]})
    events.put_rule(Name="register", EventBusName=BUS, EventPattern=pattern)
    events.put_targets(Rule="register", EventBusName=BUS, Targets=[{"Id": "heard", "Arn": queue_arn}])
    put(app, "slow.png", picture)
    script = json.dumps({"seconds": 60})
    workflow = Workflow.of(app)
    arn = workflow.start({"slow.png": None}, {"slow.png": script})

    def heard() -> Any:
        messages = sqs.receive_message(QueueUrl=queue).get("Messages", [])
        return [json.loads(message["Body"]) for message in messages]

    [event] = wait_for(heard, 180, "nothing was registered")
    assert event["source"] == PREFIX
    assert event["detail"]["pipelineExecutionId"] == "0a1b2c3d"
    ours = event["detail"]["subExecution"]["executionArn"]
    app.client("stepfunctions").stop_execution(executionArn=ours, cause="aborted in VAMS")
    assert workflow.error(arn)["code"] == "Cancelled"
    assert event["detail"]["logs"][0]["logGroupArn"].startswith("arn:aws:logs:")


def test_task_tokens_of_vams_are_answered_with_a_role_of_their_account(app: App) -> None:
    """No role of ours answers a token of VAMS directly, and every call is granted."""
    used, granted = uses(app), grants(app)
    assert not [use for use in used if not any(covers(grant, use) for grant in granted)]
    assumed = {use.role for use in used if use.action == "sts:assumerole"}
    assert {"FunctionsFinishRun", "FunctionsReport", "FunctionsVamscosmosreason22b"} <= assumed
    for role in assumed:
        assert not [use for use in used if use.role == role and use.action.startswith("states:sendtask")]


def test_registration_follows_the_configuration(app: App) -> None:
    """This test is the last of the module because it deploys three times."""
    created = {request["ResourceProperties"]["resourceOverrides"]: request for request in asked_of_vams(app)}
    assert len(created) == 2 and {one["RequestType"] for one in created.values()} == {"Create"}
    bundle = json.loads(next(iter(created.values()))["ResourceProperties"]["inlineBundle"])
    assert bundle["pipeline"]["pipelineId"] == bundle["workflow"]["workflowId"]

    redeploy(app, taskTimeoutSeconds=7200)
    updates = asked_of_vams(app)[2:]
    assert [one["RequestType"] for one in updates] == ["Update", "Update"]
    for one in updates:
        timeouts = [
            json.loads(one[properties]["inlineBundle"])["pipeline"]["executionConfig"]["taskTimeout"]
            for properties in ("OldResourceProperties", "ResourceProperties")
        ]
        assert timeouts == ["28800", "7200"]
        assert one["PhysicalResourceId"].startswith(f"{IMPORT}/cosmos-reason2-")

    redeploy(app, entry={"autoRegisterWithVAMS": False}, taskTimeoutSeconds=7200)
    [deleted] = asked_of_vams(app)[4:]
    assert deleted["RequestType"] == "Delete"
    assert json.loads(deleted["ResourceProperties"]["inlineBundle"])["pipeline"]["pipelineId"] == TWO_B


def redeploy(app: App, entry: dict[str, Any] | None = None, **vams: Any) -> None:
    config = configuration(app.folder, entry, vams={**SETTINGS, **vams})
    deploy(synthesize(config, app.folder / f"cdk-{uuid.uuid4().hex[:6]}.out"), app.cloud)
