"""Probes of SQS, EventBridge, S3 and DynamoDB, and of what all services share."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import botocore.session
from moto.core import responses
from moto.core.serialize import BaseJSONSerializer
from moto.s3.models import FakeKey
from moto.s3.responses import S3Response
from moto.sqs.models import Message

from cosmos_batch.local import backends, recorded_calls, runtime
from tests.local.probes.registry import ProbedCloud, error_code, probe, resource, unique, until


@probe("core.method-names-are-cached")
def _method_names(_: ProbedCloud) -> Any:
    return hasattr(responses.method_names_from_class, "cache_info")


@probe("core.service-models-are-cached")
def _service_models(_: ProbedCloud) -> Any:
    return botocore.session.create_loader() is botocore.session.create_loader()


@probe("core.calls-are-recorded-by-role")
def _calls(cloud: ProbedCloud) -> Any:
    key = recorded_calls.credentials_of("arn:aws:iam::123456789012:role/caller")["AWS_ACCESS_KEY_ID"]
    cloud.client("sqs", key).list_queues()
    return {"role": "caller", "service": "sqs", "operation": "ListQueues", "resource": "", "count": 1, "units": 1} in (
        recorded_calls.recorded()
    )


@probe("dynamodb.requests-are-atomic")
def _atomic_writes(cloud: ProbedCloud) -> Any:
    client, table = cloud.client("dynamodb"), unique()
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )

    def write(attempt: int) -> bool:
        return not error_code(
            client.update_item,
            TableName=table,
            Key={"pk": {"S": str(attempt // 8)}},
            UpdateExpression="SET winner = :me",
            ConditionExpression="attribute_not_exists(winner)",
            ExpressionAttributeValues={":me": {"N": str(attempt)}},
        )

    return _one_of_eight_wins(write)


def _one_of_eight_wins(write: Callable[[int], bool]) -> bool:
    """Return whether of each eight attempts that are made at once, with successive numbers, exactly one succeeds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # The server's threads change places within a request, so that a race shows.
    try:
        with ThreadPoolExecutor(8) as threads:
            for start in range(0, 640, 160):
                written = list(threads.map(write, range(start, start + 160)))
                if any(sum(written[first : first + 8]) != 1 for first in range(0, 160, 8)):
                    return False
    finally:
        sys.setswitchinterval(interval)
    return True


TABLE = {
    "BillingMode": "PAY_PER_REQUEST",
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
}


@probe("dynamodb.sums-of-small-numbers")
def _small_sums(cloud: ProbedCloud) -> Any:
    stack, client = cloud.stack(), cloud.client("dynamodb")
    name = stack.put_one(resource("AWS::DynamoDB::Table", **TABLE))
    for number in ("0.0000001", "-0.0000001", "2"):
        answer = client.update_item(
            TableName=name,
            Key={"pk": {"S": "a"}},
            UpdateExpression="ADD #sum :number",
            ExpressionAttributeNames={"#sum": "sum"},
            ExpressionAttributeValues={":number": {"N": number}},
            ReturnValues="ALL_NEW",
        )
    return float(answer["Attributes"]["sum"]["N"]) == 2


@probe("dynamodb.values-are-written-fast")
def _written_values(cloud: ProbedCloud) -> Any:
    stack, client = cloud.stack(), cloud.client("dynamodb")
    name = stack.put_one(resource("AWS::DynamoDB::Table", **TABLE))
    client.put_item(TableName=name, Item={"pk": {"S": "a"}})
    asked = []
    get_value = BaseJSONSerializer.get_value

    def noted(self: BaseJSONSerializer, value: Any, key: str, shape: Any) -> Any:
        asked.append(key)
        return get_value(self, value, key, shape)

    with patch.object(BaseJSONSerializer, "get_value", noted):
        client.scan(TableName=name)
    return "Items" in asked and "BOOL" not in asked


@probe("dynamodb.updated-tables-keep-their-rows")
def _tables(cloud: ProbedCloud) -> Any:
    stack, client = cloud.stack(), cloud.client("dynamodb")
    name = stack.put_one(resource("AWS::DynamoDB::Table", **TABLE))
    client.put_item(TableName=name, Item={"pk": {"S": "a"}})
    ttl = {"AttributeName": "expires", "Enabled": True}
    stack.put_one(resource("AWS::DynamoDB::Table", **TABLE, TimeToLiveSpecification=ttl))
    described = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    return described.get("AttributeName") == "expires" and client.scan(TableName=name)["Count"] == 1


@probe("sqs.deduplication-ids-outlive-messages")
def _deduplication(cloud: ProbedCloud) -> Any:
    sqs, url = cloud.client("sqs"), cloud.queue(FifoQueue="true")
    message = {"QueueUrl": url, "MessageBody": "{}", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    sqs.send_message(**message)
    cloud.received(url, 0)
    sqs.send_message(**message)
    return cloud.received(url, 0) == []


class SlowList(list[Any]):
    """Messages; when they have been listed in whole for the first time, another thread sends a message."""

    def __init__(self, messages: list[Any], send: threading.Thread) -> None:
        super().__init__(messages)
        self._send = send

    def __iter__(self) -> Iterator[Any]:
        yield from super().__iter__()
        if not self._send.ident:
            self._send.start()
            self._send.join(0.5)  # A queue that is locked lets the message in after the deletion.


@probe("sqs.deletions-lose-no-messages")
def _deletions(cloud: ProbedCloud) -> Any:
    sqs, url = cloud.client("sqs"), cloud.queue()
    sqs.send_message(QueueUrl=url, MessageBody="1")
    [message] = sqs.receive_message(QueueUrl=url)["Messages"]
    send = threading.Thread(target=lambda: sqs.send_message(QueueUrl=url, MessageBody="2"))
    queue = backends.queues().get_queue(url.rpartition("/")[2])
    queue._messages = SlowList(queue._messages, send)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    send.join()
    return cloud.received(url, 0) == [2]


@probe("sqs.long-polls-end-with-the-message")
def _long_polls(cloud: ProbedCloud) -> Any:
    sqs = cloud.client("sqs")

    def delay(pause: float) -> float:
        url = cloud.queue()
        sent = time.monotonic()
        sqs.send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=1)
        time.sleep(pause)
        sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)
        return time.monotonic() - sent - 1

    # A poll that looks once a second is late each time; on a busy machine at least one of six is not.
    return any(delay(pause) < 0.25 for pause in (0.3, 0.5, 0.7) * 2)


@probe("sqs.visibility-is-a-comparison")
def _visibility(_: ProbedCloud) -> Any:
    return "unix_time_millis" not in Message.visible.fget.__code__.co_names


@probe("sqs.generated-fifo-names")
def _fifo_names(cloud: ProbedCloud) -> Any:
    return cloud.stack().put_one(resource("AWS::SQS::Queue", FifoQueue=True)).endswith(".fifo")


@probe("sqs.updates-change-all-attributes")
def _queue_attributes(cloud: ProbedCloud) -> Any:
    stack = cloud.stack()
    stack.put_one(resource("AWS::SQS::Queue", MessageRetentionPeriod=60))
    url = stack.put_one(resource("AWS::SQS::Queue", MessageRetentionPeriod=120))
    attributes = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return attributes["MessageRetentionPeriod"] == "120"


@probe("events.targets-are-reached-after-the-call")
def _disabled_rules(cloud: ProbedCloud) -> Any:
    """A disabled rule fires nothing, and a rule whose target fails keeps no later rule from its own."""
    events, source = cloud.client("events"), unique()
    disabled = cloud.events_to_queue({"source": [source]})
    for rule in events.list_rules()["Rules"]:
        if source in rule.get("EventPattern", ""):
            events.disable_rule(Name=rule["Name"])
    enabled = cloud.events_to_queue({"source": [source]})
    events.put_events(Entries=[{"Source": source, "DetailType": "probe", "Detail": "{}"}])
    return len(cloud.received(enabled)) == 1 and cloud.received(disabled, 0) == []


def _put_object(cloud: ProbedCloud, **options: Any) -> list[dict[str, Any]]:
    """Put an object into a bucket that sends its events to EventBridge; return the events."""
    s3, bucket = cloud.client("s3"), unique()
    s3.create_bucket(Bucket=bucket)
    configuration: dict[str, Any] = {"EventBridgeConfiguration": {}}
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=configuration)
    url = cloud.events_to_queue({"source": ["aws.s3"], "detail": {"bucket": {"name": [bucket]}}})
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", **options)
    return cloud.received(url, 1)


@probe("s3.events-have-their-own-fields")
def _event_fields(cloud: ProbedCloud) -> Any:
    detail = _put_object(cloud)[0]["detail"]
    return detail["reason"] == "PutObject" and len(detail["object"]["etag"]) == 32


@probe("s3.one-event-for-one-object")
def _one_event(cloud: ProbedCloud) -> Any:
    return len(_put_object(cloud, Tagging="a=b", Metadata={"c": "d"})) == 1


@probe("s3.conditional-writes-are-atomic")
def _conditional_writes(cloud: ProbedCloud) -> Any:
    s3, bucket = cloud.client("s3"), unique()
    s3.create_bucket(Bucket=bucket)
    checksum = S3Response._get_checksum

    def slow_checksum(*arguments: Any) -> Any:
        time.sleep(0.001)  # between the look for an object and its writing, so that the race shows
        return checksum(*arguments)

    with patch.object(S3Response, "_get_checksum", slow_checksum):
        return _one_of_eight_wins(
            lambda attempt: (
                not error_code(s3.put_object, Bucket=bucket, Key=str(attempt // 8), Body=str(attempt), IfNoneMatch="*")
            )
        )


@probe("s3.conditions-of-bucket-policies")
def _conditions(cloud: ProbedCloud) -> Any:
    s3, bucket = cloud.client("s3"), unique()
    s3.create_bucket(Bucket=bucket)
    condition = {"StringEquals": {"aws:PrincipalTag/team": "another"}}
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = {"Version": "2012-10-17", "Statement": [{**statement, "Condition": condition}]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    return error_code(s3.put_object, Bucket=bucket, Key="k", Body=b"x") == ""


@probe("s3.bucket-updates")
def _bucket_updates(cloud: ProbedCloud) -> Any:
    stack = cloud.stack()
    stack.put_one(resource("AWS::S3::Bucket", VersioningConfiguration={"Status": "Enabled"}))
    tags = [{"Key": "a", "Value": "b"}]
    name = stack.put_one(resource("AWS::S3::Bucket", VersioningConfiguration={"Status": "Suspended"}, Tags=tags))
    return cloud.client("s3").get_bucket_versioning(Bucket=name)["Status"] == "Suspended"


@probe("s3.templates-switch-eventbridge-on")
def _eventbridge_on(cloud: ProbedCloud) -> Any:
    notifications = {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    name = cloud.stack().put_one(resource("AWS::S3::Bucket", NotificationConfiguration=notifications))
    s3 = cloud.client("s3")
    url = cloud.events_to_queue({"source": ["aws.s3"], "detail": {"bucket": {"name": [name]}}})
    s3.put_object(Bucket=name, Key="k", Body=b"x")
    return cloud.received(url, 1) != []


class _CountedName(str):
    """The name of an object, which counts how often a listing compares names with its prefix."""

    compared = 0

    def startswith(self, *arguments: Any) -> bool:
        _CountedName.compared += 1
        return super().startswith(*arguments)


@probe("s3_listing.pages-visit-their-own-keys")
def _pages(cloud: ProbedCloud) -> Any:
    s3, bucket = cloud.client("s3"), unique()
    s3.create_bucket(Bucket=bucket)
    keys = backends.s3().get_bucket(bucket).keys
    for number in range(1000):
        name = _CountedName(f"{number:04}")
        keys[name] = FakeKey(name, b"", runtime.ACCOUNT, runtime.REGION)
    page = s3.list_objects_v2(Bucket=bucket, Prefix="0", StartAfter="0499", MaxKeys=2)
    return [content["Key"] for content in page["Contents"]] == ["0500", "0501"] and _CountedName.compared < 10


@probe("awslambda.mappings-poll-their-queue")
def _mappings(cloud: ProbedCloud) -> Any:
    """A mapping takes a delayed message, which no send could hand to the function."""
    url = cloud.queue()
    properties = {"FunctionName": {"Ref": "F"}, "EventSourceArn": cloud.queue_arn(url)}
    code = "def handler(event, context):\n    return None\n"
    cloud.stack().put({"F": cloud.function(code), "M": resource("AWS::Lambda::EventSourceMapping", **properties)})
    cloud.client("sqs").send_message(QueueUrl=url, MessageBody="{}", DelaySeconds=1)
    names = [
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesDelayed",
        "ApproximateNumberOfMessagesNotVisible",
    ]
    counts = lambda: cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]  # noqa: E731
    return until(lambda: set(counts().values()) == {"0"})
