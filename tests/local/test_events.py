"""EventBridge: the events of services, their shape, and their delivery."""

from __future__ import annotations

import json
import re
import time
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.eventbridge.delivery import transform
from cosmos_batch.local.eventbridge.schedule import Schedule, period_of
from tests.local.support import Inbox, Stack


def rule(stack: Stack, pattern: dict[str, Any], target: dict[str, Any], **properties: Any) -> dict[str, Any]:
    """Return a rule resource with one target."""
    return {
        "Type": "AWS::Events::Rule",
        "Properties": {"EventPattern": pattern, "Targets": [{"Id": "T", **target}], **properties},
    }


def put_event(cloud: LocalCloud, source: str, detail: dict[str, Any]) -> None:
    entry = {"Source": source, "DetailType": "test", "Detail": json.dumps(detail)}
    assert cloud.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


@pytest.fixture
def bucket(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> str:
    """Provide a bucket whose events go to the inbox."""
    properties = {"NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}}
    resources = {
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties},
        "Rule": rule(
            stack,
            {
                "source": ["aws.s3"],
                "detail-type": ["Object Created"],
                "detail": {"bucket": {"name": [{"Ref": "Bucket"}]}},
            },
            {"Arn": inbox.arn},
        ),
    }
    return stack.put(resources, {"Name": {"Ref": "Bucket"}})["Name"]


def test_an_upload_is_an_event_in_the_shape_of_aws(cloud: LocalCloud, bucket: str, inbox: Inbox) -> None:
    key = "clips/a b+c%d/ü.mp4"
    etag = cloud.client("s3").put_object(Bucket=bucket, Key=key, Body=b"12345")["ETag"]
    event = inbox.next()
    assert event["version"] == "0"
    assert event["detail-type"] == "Object Created"
    assert event["resources"] == [f"arn:aws:s3:::{bucket}"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", event["time"])
    detail = event["detail"]
    assert detail["bucket"] == {"name": bucket}
    assert (detail["object"]["key"], detail["object"]["size"]) == (key, 5)
    assert detail["object"]["etag"] == etag.strip('"')
    assert "version-id" not in detail["object"]
    assert detail["reason"] == "PutObject"
    assert {"version", "request-id", "requester", "source-ip-address"} <= detail.keys()


def test_sequencers_grow_and_ids_differ(cloud: LocalCloud, bucket: str, inbox: Inbox) -> None:
    for body in (b"1", b"2"):
        cloud.client("s3").put_object(Bucket=bucket, Key="k", Body=body)
    first, second = sorted(inbox.all(2), key=lambda event: event["detail"]["object"]["sequencer"])
    assert first["detail"]["object"]["etag"] != second["detail"]["object"]["etag"]
    assert first["id"] != second["id"]


def test_events_distinguish_copies_multipart_uploads_and_versions(cloud: LocalCloud, bucket: str, inbox: Inbox) -> None:
    s3 = cloud.client("s3")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    version = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["VersionId"]
    assert inbox.next()["detail"]["object"]["version-id"] == version
    s3.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"})
    assert inbox.next()["detail"]["reason"] == "CopyObject"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="c")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="c", UploadId=upload, PartNumber=1, Body=b"1")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="c", UploadId=upload, MultipartUpload=parts)
    assert inbox.next()["detail"]["reason"] == "CompleteMultipartUpload"


def test_an_event_reaches_a_lambda_a_state_machine_and_a_fifo_queue(
    cloud: LocalCloud, stack: Stack, inbox: Inbox
) -> None:
    sends = (
        "import boto3, json, os\ndef handler(event, context):\n"
        "    body = json.dumps(['lambda', event])\n"
        "    boto3.client('sqs').send_message(QueueUrl=os.environ['INBOX'], MessageBody=body)\n"
    )
    definition = {
        "StartAt": "Send",
        "States": {
            "Send": {
                "Type": "Task",
                "Resource": "arn:aws:states:::sqs:sendMessage",
                "Parameters": {"QueueUrl": inbox.url, "MessageBody.$": "States.Array('machine', $)"},
                "End": True,
            }
        },
    }
    pattern = {"source": [f"own.{stack.name}"]}
    outputs = stack.put(
        {
            "F": stack.function(sends, Environment={"Variables": {"INBOX": inbox.url}}),
            "Machine": {
                "Type": "AWS::StepFunctions::StateMachine",
                "Properties": {
                    "DefinitionString": json.dumps(definition),
                    "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                },
            },
            "Fifo": {
                "Type": "AWS::SQS::Queue",
                "Properties": {
                    "QueueName": f"{stack.name}.fifo",
                    "FifoQueue": True,
                    "ContentBasedDeduplication": True,
                },
            },
            "ToLambda": rule(stack, pattern, {"Arn": {"Fn::GetAtt": ["F", "Arn"]}}),
            "ToMachine": rule(stack, pattern, {"Arn": {"Ref": "Machine"}}),
            "ToFifo": rule(
                stack,
                pattern,
                {"Arn": {"Fn::GetAtt": ["Fifo", "Arn"]}, "SqsParameters": {"MessageGroupId": "nudges"}},
            ),
            "Disabled": rule(stack, pattern, {"Arn": inbox.arn}, State="DISABLED"),
        },
        {"Fifo": {"Ref": "Fifo"}},
    )
    put_event(cloud, f"own.{stack.name}", {"n": 1})
    arrived = {kind: event["detail"] for kind, event in inbox.all(2)}
    assert arrived == {"lambda": {"n": 1}, "machine": {"n": 1}}
    (message,) = cloud.client("sqs").receive_message(
        QueueUrl=outputs["Fifo"], WaitTimeSeconds=5, AttributeNames=["All"]
    )["Messages"]
    assert message["Attributes"]["MessageGroupId"] == "nudges"
    assert inbox.next(1) is None


def test_an_undeliverable_event_is_retried_and_dead_lettered(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    missing = "arn:aws:lambda:us-east-1:123456789012:function:missing"
    pattern = {"source": [f"own.{stack.name}"]}
    stack.put({"Rule": rule(stack, pattern, {"Arn": missing, "DeadLetterConfig": {"Arn": inbox.arn}})})
    put_event(cloud, f"own.{stack.name}", {"n": 7})
    assert inbox.next()["detail"] == {"n": 7}


def test_put_events_does_not_wait_for_the_target(cloud: LocalCloud, stack: Stack) -> None:
    slow = "import time\ndef handler(event, context):\n    time.sleep(50)\n"
    pattern = {"source": [f"own.{stack.name}"]}
    stack.put(
        {"F": stack.function(slow), "Rule": rule(stack, pattern, {"Arn": {"Fn::GetAtt": ["F", "Arn"]}})},
    )
    started = time.monotonic()
    put_event(cloud, f"own.{stack.name}", {})
    assert time.monotonic() - started < 40, "it waited for the function"


def test_an_input_transformer_fills_its_template(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    transformer = {
        "InputPathsMap": {"n": "$.detail.n", "who": "$.detail.who"},
        "InputTemplate": '{"number": <n>, "text": "<who> has <n>", "who": "<who>"}',
    }
    pattern = {"source": [f"own.{stack.name}"]}
    stack.put({"Rule": rule(stack, pattern, {"Arn": inbox.arn, "InputTransformer": transformer})})
    put_event(cloud, f"own.{stack.name}", {"n": 3, "who": 'a "b"'})
    assert inbox.next() == {"number": 3, "text": 'a "b" has 3', "who": 'a "b"'}


def test_a_transformer_can_insert_the_whole_event() -> None:
    transformer = {"InputTemplate": '{"all": <aws.events.event.json>, "rule": "<aws.events.rule-name>"}'}
    event = {"time": "now", "detail": {"a": [1]}}
    filled = transform(transformer, SimpleNamespace(arn="arn:r", name="r"), event)
    assert filled == {"all": event, "rule": "r"}


def test_scheduled_rules_are_due_once_each_period() -> None:
    minute = SimpleNamespace(arn="m", scheduled_expression="rate(1 minute)", state="ENABLED")
    off = SimpleNamespace(arn="o", scheduled_expression="rate(1 minute)", state="DISABLED")
    schedule = Schedule()
    due = [now for now in range(0, 181) if schedule.due([minute, off], now)]
    assert due == [60, 120, 180]


@pytest.mark.parametrize(
    ("expression", "seconds"), [("rate(1 minute)", 60), ("rate(2 hours)", 7200), ("cron(0 12 * * ? *)", None)]
)
def test_rate_expressions_are_read(expression: str, seconds: float | None) -> None:
    assert period_of(expression) == seconds


def test_a_scheduled_rule_does_not_match_other_events(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    properties = {"ScheduleExpression": "rate(1 day)", "Targets": [{"Id": "T", "Arn": inbox.arn}]}
    stack.put({"Rule": {"Type": "AWS::Events::Rule", "Properties": properties}})
    put_event(cloud, f"own.{uuid.uuid4().hex}", {})
    assert inbox.next(1) is None
