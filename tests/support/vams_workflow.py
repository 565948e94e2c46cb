"""A workflow as VAMS makes them, which runs a pipeline of the deployed app."""

import json
import uuid
from dataclasses import dataclass
from typing import Any, Self

from cosmos_batch.contract.s3 import parse_uri
from tests.support.deployed_app import TWO_B, App


@dataclass(frozen=True)
class Vams:
    """A workflow as VAMS makes them: it invokes a pipeline's Lambda and waits for the callback."""

    app: App
    machine: str
    function: str

    @classmethod
    def of(cls, app: App, pipeline: str = TWO_B) -> Self:
        """Create the workflow's state machine, whose name begins with `vams-` as VAMS's do."""
        function = app.vams_function(pipeline)
        invoke = {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Parameters": {
                "FunctionName": function,
                "Payload": {
                    "body": {
                        "inputS3AssetFilePath.$": "$.input",
                        "outputS3AssetFilesPath.$": "$.output",
                        "outputS3AssetPreviewPath.$": "$.output",
                        "outputS3AssetMetadataPath.$": "$.output",
                        "inputOutputS3AssetAuxiliaryFilesPath.$": "$.output",
                        "inputMetadata.$": "$.inputMetadata",
                        "inputParameters.$": "$.inputParameters",
                        "TaskToken.$": "$$.Task.Token",
                        "assetId.$": "$.assetId",
                        "databaseId": "database-1",
                        "workflowId": "workflow-1",
                        "executingUserName": "person@example.com",
                    }
                },
            },
            "TimeoutSeconds": 28_800,
            "End": True,
        }
        machine = app.client("stepfunctions").create_state_machine(
            name=f"vams-{uuid.uuid4().hex[:12]}",
            definition=json.dumps({"StartAt": "Pipeline", "States": {"Pipeline": invoke}}),
            roleArn="arn:aws:iam::123456789012:role/vams",
        )["stateMachineArn"]
        return cls(app, machine, function)

    def start(
        self,
        key: str,
        metadata: dict[str, Any] | None = None,
        parameters: dict[str, Any] | None = None,
        asset_id: str = "asset-1",
        output: str | None = None,
    ) -> str:
        """Start the workflow on one file, and return the ARN of VAMS's own execution."""
        request = {
            "input": f"s3://{self.app.assets}/{key}",
            "output": output or f"s3://{self.app.assets}/vams-out/{uuid.uuid4().hex[:8]}/",
            "inputMetadata": json.dumps({"VAMS": metadata or {}}),
            "inputParameters": json.dumps(parameters or {}),
            "assetId": asset_id,
        }
        arn: str = self.app.client("stepfunctions").start_execution(
            stateMachineArn=self.machine, input=json.dumps(request)
        )["executionArn"]
        return arn

    def output_of(self, arn: str) -> str:
        """Return the key prefix that an execution was given for its output."""
        described = self.app.client("stepfunctions").describe_execution(executionArn=arn)
        return parse_uri(json.loads(described["input"])["output"]).key
