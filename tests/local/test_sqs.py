"""SQS queues, and their event source mappings to Lambda."""

from __future__ import annotations

import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
from moto.sqs.models import Message, Queue

from cosmos_batch.local import backends
from cosmos_batch.local.cloud import LocalCloud
from cosmos_batch.local.lambda_functions.event_sources import Poller, reported_failures
from cosmos_batch.local.sqs import receiving
from tests.local.support import Inbox, Stack, wait_until

# Sends its records to the inbox, and reports the messages with `fail` in their body as failed.
HANDLER = """
import json, os, time, boto3
sqs = boto3.client("sqs")
def handler(event, context):
    bodies = [json.loads(record["body"]) for record in event["Records"]]
    time.sleep(max(body.get("sleep", 0) for body in bodies))
    seen = {"at": time.time(), "records": event["Records"]}
    sqs.send_message(QueueUrl=os.environ["INBOX"], MessageBody=json.dumps(seen))
    failed = [r["messageId"] for r, body in zip(event["Records"], bodies) if body.get("fail")]
    return {"batchItemFailures": [{"itemIdentifier": name} for name in failed]}
"""


class Mapped:
    """A queue that is mapped to a function."""

    def __init__(self, cloud: LocalCloud, stack: Stack, inbox: Inbox, queue: dict[str, Any], **mapping: Any) -> None:
        self._sqs = cloud.client("sqs")
        suffix = ".fifo" if queue.get("FifoQueue") else ""
        outputs = stack.put(
            {
                "Dead": {"Type": "AWS::SQS::Queue", "Properties": {"FifoQueue": True} if suffix else {}}
                | ({"Properties": {"FifoQueue": True, "QueueName": f"{stack.name}-dead.fifo"}} if suffix else {}),
                "Queue": {
                    "Type": "AWS::SQS::Queue",
                    "Properties": {
                        "QueueName": f"{stack.name}{suffix}",
                        "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 2},
                        **queue,
                    },
                },
                "F": stack.function(HANDLER, Environment={"Variables": {"INBOX": inbox.url}}),
                "Mapping": {
                    "Type": "AWS::Lambda::EventSourceMapping",
                    "Properties": {
                        "EventSourceArn": {"Fn::GetAtt": ["Queue", "Arn"]},
                        "FunctionName": {"Ref": "F"},
                        "FunctionResponseTypes": ["ReportBatchItemFailures"],
                        **mapping,
                    },
                },
            },
            {"Url": {"Ref": "Queue"}, "DeadUrl": {"Ref": "Dead"}},
        )
        self.url, self.dead_url = outputs["Url"], outputs["DeadUrl"]

    def send(self, body: dict[str, Any], **options: Any) -> str:
        return self._sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps(body), **options)["MessageId"]

    def count(self, url: str) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return sum(int(number) for number in attributes.values())


def test_a_record_has_the_shape_of_aws(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    mapped = Mapped(cloud, stack, inbox, {})
    attribute = {"kind": {"DataType": "String", "StringValue": "clip"}}
    message_id = mapped.send({"n": 1}, MessageAttributes=attribute)
    (record,) = inbox.next()["records"]
    assert record["messageId"] == message_id
    assert json.loads(record["body"]) == {"n": 1}
    assert record["attributes"]["ApproximateReceiveCount"] == "1"
    assert abs(int(record["attributes"]["SentTimestamp"]) / 1000 - time.time()) < 60
    assert record["messageAttributes"]["kind"]["stringValue"] == "clip"
    assert record["eventSource"] == "aws:sqs"
    assert record["eventSourceARN"].endswith(f":{stack.name}")
    assert record["awsRegion"] == "us-east-1"
    assert len(record["md5OfBody"]) == 32
    wait_until(lambda: mapped.count(mapped.url) == 0)


class RecordingCondition(threading.Condition):
    """A condition that records the time limits of its waits."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: SimpleQueue[float | None] = SimpleQueue()

    def wait(self, timeout: float | None = None) -> bool:
        self.limits.put(timeout)
        return super().wait(timeout)


def test_a_send_wakes_the_poller_of_a_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue("jobs", "us-east-1", "123456789012")
    queue._messages_lock = lock = RecordingCondition()
    payloads: SimpleQueue[str] = SimpleQueue()
    function = SimpleNamespace(invoke=lambda arn, version, payload, *_: payloads.put(payload))
    monkeypatch.setattr(backends, "queues", lambda: SimpleNamespace(get_queue=lambda name: queue))
    monkeypatch.setattr(backends, "functions", lambda: function)
    poller = Poller(
        SimpleNamespace(
            event_source_arn=queue.queue_arn,
            enabled=True,
            batch_size=10,
            scaling_config=None,
            function_arn="arn",
            function_response_types=None,
        )
    )
    try:
        # A wait without a limit ends with a notification only: nothing looks at the queue at intervals.
        assert lock.limits.get(timeout=120) is None
        message = Message("first", "body")
        message.mark_sent()
        receiving.append(queue, message)
        (record,) = json.loads(payloads.get(timeout=120))["Records"]
        assert record["body"] == "body"
    finally:
        poller.stop()


def test_a_delayed_message_arrives_after_its_delay(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    mapped = Mapped(cloud, stack, inbox, {})
    sent = time.time()
    mapped.send({}, DelaySeconds=1)
    assert inbox.next()["at"] - sent >= 1.0


def test_only_the_message_reported_as_failed_is_received_again_and_dead_lettered(
    cloud: LocalCloud, stack: Stack, inbox: Inbox
) -> None:
    mapped = Mapped(cloud, stack, inbox, {"VisibilityTimeout": 3}, BatchSize=10)
    mapped.send({"fail": True})
    mapped.send({"fine": True})
    wait_until(lambda: mapped.count(mapped.dead_url) == 1)
    assert mapped.count(mapped.url) == 0
    counts = []
    while arrived := inbox.next(0):
        counts += [(json.loads(r["body"]), r["attributes"]["ApproximateReceiveCount"]) for r in arrived["records"]]
    assert sorted(counts, key=str) == [({"fail": True}, "1"), ({"fail": True}, "2"), ({"fine": True}, "1")]


def test_concurrency_is_limited_and_batches_fill(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    mapped = Mapped(cloud, stack, inbox, {}, BatchSize=5, ScalingConfig={"MaximumConcurrency": 2})
    for number in range(12):
        mapped.send({"n": number, "sleep": 0.3})
    batches = []
    while sum(map(len, batches)) < 12:
        batches.append(inbox.next()["records"])
    assert max(map(len, batches)) <= 5
    assert len(batches) < 12


def test_a_fifo_group_is_served_in_order_one_batch_at_a_time(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    mapped = Mapped(cloud, stack, inbox, {"FifoQueue": True, "ContentBasedDeduplication": True}, BatchSize=1)
    for number in range(4):
        mapped.send({"n": number, "sleep": 0.05}, MessageGroupId="one")
    mapped.send({"n": 0, "sleep": 0.05}, MessageGroupId="one")  # The same content is dropped.
    numbers = [json.loads(inbox.next()["records"][0]["body"])["n"] for _ in range(4)]
    assert numbers == [0, 1, 2, 3]
    assert inbox.next(1) is None


def test_a_mapping_receives_nothing_until_it_is_enabled(cloud: LocalCloud, stack: Stack, inbox: Inbox) -> None:
    mapped = Mapped(cloud, stack, inbox, {}, Enabled=False)
    mapped.send({})
    assert inbox.next(1) is None
    client = cloud.client("lambda")
    (mapping,) = [
        m for m in client.list_event_source_mappings()["EventSourceMappings"] if stack.name in m["FunctionArn"]
    ]
    client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    assert inbox.next() is not None


@pytest.mark.parametrize(
    ("answer", "failed"),
    [
        (None, set()),
        ({}, set()),
        ({"batchItemFailures": []}, set()),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a"}),
        ({"batchItemFailures": [{"itemIdentifier": "unknown"}]}, {"a", "b"}),
        ({"batchItemFailures": [{"wrong": "a"}]}, {"a", "b"}),
        ("text", {"a", "b"}),
    ],
)
def test_a_partial_batch_response_is_read_as_aws_does(answer: Any, failed: set[str]) -> None:
    assert reported_failures(answer, {"a", "b"}) == failed


def test_a_deduplication_id_outlives_its_message(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    options = {"QueueUrl": url, "MessageBody": "nudge", "MessageGroupId": "g", "MessageDeduplicationId": "bucket-1"}
    first = sqs.send_message(**options)["MessageId"]
    received = sqs.receive_message(QueueUrl=url)["Messages"][0]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=received["ReceiptHandle"])
    assert sqs.send_message(**options)["MessageId"] == first
    assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_group_is_blocked_while_one_of_its_messages_is_in_flight(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}.fifo", Attributes=attributes)["QueueUrl"]
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group)
    first = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=1)["Messages"][0]
    others = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert (first["Body"], [message["Body"] for message in others]) == ("a1", ["b1"])
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    again = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in again] == ["a1", "a2"]


def test_a_long_poll_ends_when_a_message_is_visible_again(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")
    empty = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}")["QueueUrl"]
    whole_poll = threading.Thread(
        target=sqs.receive_message, kwargs={"QueueUrl": empty, "WaitTimeSeconds": 20}, daemon=True
    )
    hidden_at = time.monotonic()
    sqs.receive_message(QueueUrl=url)
    whole_poll.start()
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"]
    assert time.monotonic() - hidden_at > 0.5
    assert whole_poll.is_alive(), "the poll did not wait to its end, as one of an empty queue does"
    sqs.send_message(QueueUrl=empty, MessageBody="ends the other poll")
    whole_poll.join(120)


def test_no_message_is_lost_when_many_send_and_delete_at_once(cloud: LocalCloud) -> None:
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName=f"q{uuid.uuid4().hex}")["QueueUrl"]
    seen: list[str] = []

    def send(start: int) -> None:
        for number in range(start, start + 50):
            sqs.send_message(QueueUrl=url, MessageBody=str(number))

    def drain() -> None:
        while messages := sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                seen.append(message["Body"])
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda job: job(), [lambda: send(0), lambda: send(50), drain, drain]))
    assert sorted(map(int, seen)) == list(range(100))
