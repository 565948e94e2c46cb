"""Create state machines in the form that VAMS generates, with the functions of VAMS that they call.

The definitions follow `createWorkflow.py` and `stepfunctions_builder.py` of VAMS 2.5.1, and `workflowAslBuilder.py` of
2.6: names that begin with five hexadecimal digits, result paths that have them, retries and catches of everything, and
a Fail state with a reserved error. VAMS's own functions are replaced by ones that do what matters here: the end state
moves what the pipeline made onto the asset, the error handler of 2.6 keeps what it is told.
"""

import io
import json
import uuid
import zipfile
from typing import Any

from cosmos_batch.local.cloud import LocalCloud

# Of ten names in sixteen the first character is a digit.
JOB = "1a2b3"
FAILED = "WorkflowProcessingJobFailed"
HANDLER = "HandleExecutionError"
PROCESS, HANDLE = "vams-process-outputs", "vams-handle-error"
ROLE = "arn:aws:iam::123456789012:role/vams"

PROCESS_SOURCE = """
import boto3

def handler(event, context):
    body = event["body"]
    s3 = boto3.client("s3")
    prefix, moved = body["filesPathKey"], []
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=body["bucket"], Prefix=prefix):
        for found in page.get("Contents", []):
            relative = found["Key"].removeprefix(prefix)
            source = {"Bucket": body["bucket"], "Key": found["Key"]}
            s3.copy_object(Bucket=body["bucket"], Key=body["assetLocationKey"] + relative, CopySource=source)
            s3.delete_object(**source)
            moved.append(relative)
    return {"moved": moved}
"""

HANDLE_SOURCE = """
import json, boto3

def handler(event, context):
    body = event["body"]
    key = f"errors/{body['workflowExecutionId']}.json"
    boto3.client("s3").put_object(Bucket=body["bucket"], Key=key, Body=json.dumps(event["errorInfo"]).encode())
    return {"handled": True}
"""


def make_functions(cloud: LocalCloud) -> None:
    """Create VAMS's functions, which exist in the account before any workflow."""
    trust = {"Version": "2012-10-17", "Statement": []}
    cloud.client("iam").create_role(RoleName="vams", AssumeRolePolicyDocument=json.dumps(trust))
    for name, source in ((PROCESS, PROCESS_SOURCE), (HANDLE, HANDLE_SOURCE)):
        make_function(cloud, name, source)


def make_function(cloud: LocalCloud, name: str, source: str) -> None:
    """Create a function that belongs to no stack."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("index.py", source)
    cloud.client("lambda").create_function(
        FunctionName=name,
        Runtime="python3.12",
        Role=ROLE,
        Handler="index.handler",
        Code={"ZipFile": packed.getvalue()},
        Timeout=30,
    )


def create_machine(cloud: LocalCloud, definition: dict[str, Any]) -> str:
    """Create a machine with a name as VAMS generates it, and return its ARN."""
    arn: str = cloud.client("stepfunctions").create_state_machine(
        name=f"vams-{uuid.uuid4().hex[:12]}", definition=json.dumps(definition, indent=2), roleArn=ROLE
    )["stateMachineArn"]
    return arn


def definition_2_5(function: str, pipeline: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the definition of a workflow with one pipeline, which waits for its callback."""
    job = f"{JOB}-{pipeline}"
    outputs = f"pipelines/{pipeline}/{job}/output/{{}}"
    execution = "$$.Execution.Name"

    def output(kind: str) -> str:
        return f"States.Format('s3://{{}}/{outputs}/{kind}/', $.bucketAsset, {execution})"

    body = {
        "inputS3AssetFilePath.$": "States.Format('s3://{}/{}', $.bucketAsset, $.inputAssetFileKey)",
        "outputS3AssetFilesPath.$": output("files"),
        "outputS3AssetPreviewPath.$": output("previews"),
        "outputS3AssetMetadataPath.$": output("metadata"),
        "inputOutputS3AssetAuxiliaryFilesPath.$": (
            f"States.Format('s3://{{}}/{{}}/pipelines/{pipeline}/', $.bucketAssetAuxiliary, $.inputAssetFileKey)"
        ),
        **_same("bucketAssetAuxiliary", "bucketAsset", "assetId", "databaseId", "workflowDatabaseId", "workflowId"),
        **_same("inputAssetFileKey", "inputAssetLocationKey", "inputMetadata"),
        **_same("executingUserName", "executingRequestContext"),
        "outputType": ".json",
        "inputParameters": json.dumps(parameters) if parameters else "",
        "TaskToken.$": "$$.Task.Token",
    }
    process = {
        "bucket.$": "$.bucketAsset",
        **_same("databaseId", "assetId", "workflowDatabaseId", "workflowId"),
        **_same("executingUserName", "executingRequestContext"),
        "assetLocationKey.$": "$.inputAssetLocationKey",
        "filesPathKey.$": f"States.Format('{outputs}/files/', {execution})",
        "executionId.$": execution,
        "pipeline": pipeline,
        "outputType": ".json",
    }
    end = f"process-outputs-{uuid.uuid4().hex}"
    call = _call(function, body, job, end, [{"ErrorEquals": ["States.ALL"], "Next": FAILED}])
    return _definition({job: call, end: _process(process, end, FAILED)})


def definition_2_6(function: str, pipeline: str, base_prefix: str) -> dict[str, Any]:
    """Return the definition of a workflow with one pipeline, in a VAMS whose default bucket has a base prefix."""
    step = f"{JOB}-{pipeline}"
    bucket, execution = "$.workflowExecutionS3InputOutputBucket", "$$.Execution.Name"
    inputs = f"{base_prefix}pipelines/workflowExecutionInputs/{{}}/pipeline1"
    body = {
        **_same("workflowDatabaseId", "workflowId", "workflowExecutionId", "workflowExecutionS3InputOutputBucket"),
        **_same("executingUserName", "executingRequestContext"),
        "inputManifestS3Location.$": f"States.Format('s3://{{}}/{inputs}/manifest.json', {bucket}, {execution})",
        "inputConfigurationS3Location.$": f"States.Format('s3://{{}}/{inputs}/config.json', {bucket}, {execution})",
        "TaskToken.$": "$$.Task.Token",
    }
    process = {
        "bucket.$": bucket,
        "assetLocationKey.$": "$.outputAssetLocationKey",
        "filesPathKey.$": f"States.Format('{run_files(base_prefix, pipeline)}', {execution})",
        **_same("workflowExecutionId", "workflowDatabaseId", "workflowId"),
    }
    catch = [
        {"ErrorEquals": [error], "Next": HANDLER, "ResultPath": "$.errorInfo"}
        for error in ("States.DataLimitExceeded", "States.ALL")
    ]
    handle = {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "ResultPath": "$.errorHandlerResult",
        "Parameters": {
            "FunctionName": HANDLE,
            "Payload": {
                "body": {"bucket.$": bucket, **_same("workflowExecutionId", "workflowDatabaseId", "workflowId")},
                "errorInfo.$": "$.errorInfo",
            },
        },
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 3, "BackoffRate": 2.0, "MaxAttempts": 2}],
        "Catch": [{"ErrorEquals": ["States.ALL"], "Next": FAILED}],
        "Next": FAILED,
    }
    end = f"process-outputs-{uuid.uuid4().hex}"
    states = {step: _call(function, body, step, end, catch), end: _process(process, end, HANDLER), HANDLER: handle}
    return _definition(states)


def run_files(base_prefix: str, pipeline: str) -> str:
    """Return the prefix of a run's results, with `{}` for the execution's name."""
    return f"{base_prefix}pipelines/{pipeline}/{JOB}-{pipeline}/output/{{}}/files/"


def _same(*names: str) -> dict[str, str]:
    """Return fields that are passed on as they are."""
    return {f"{name}.$": f"$.{name}" for name in names}


def _call(
    function: str, body: dict[str, Any], name: str, following: str, catch: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
        "ResultPath": f"$.{name}.output",
        "Parameters": {"FunctionName": function, "Payload": {"body": body}},
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "BackoffRate": 2.0, "MaxAttempts": 2}],
        "Catch": catch,
        "TimeoutSeconds": 28_800,
        "Next": following,
    }


def _process(body: dict[str, Any], name: str, failed: str) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": PROCESS, "Payload": {"body": body}},
        "ResultPath": f"$.{name}.output",
        "Retry": [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "BackoffRate": 2.0, "MaxAttempts": 3}],
        "Catch": [
            {
                "ErrorEquals": ["States.TaskFailed"],
                "Next": failed,
                **({"ResultPath": "$.errorInfo"} if failed == HANDLER else {}),
            }
        ],
        "End": True,
    }


def _definition(states: dict[str, Any]) -> dict[str, Any]:
    return {
        "Comment": "VAMS Pipeline Workflow",
        "StartAt": next(iter(states)),
        "States": {**states, FAILED: {"Type": "Fail", "Cause": FAILED, "Error": "States.TaskFailed"}},
    }
