"""Helpers for tests on a local cloud: stacks, zipped handlers, an inbox, and waiting."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable
from typing import Any

from cosmos_batch.local.cloud import LocalCloud

CODE_BUCKET = "code"
ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


def wait_until(condition: Callable[[], Any], timeout: float = 120.0) -> Any:
    """Return the first true value of ``condition``; fail when there is none within ``timeout`` seconds."""
    deadline, pause = time.monotonic() + timeout, 0.02
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
        pause = min(0.2, 1.2 * pause)
    raise AssertionError(f"nothing within {timeout} s; the last value was {value!r}")


class Stack:
    """A stack of a test, with a name of its own."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._client = cloud.client("cloudformation")
        self._s3 = cloud.client("s3")
        self.name = f"t{uuid.uuid4().hex[:8]}"

    def put(self, resources: dict[str, Any], outputs: dict[str, Any] | None = None, **more: Any) -> dict[str, str]:
        """Create or update the stack; return its outputs."""
        template = {"Resources": {"Role": ROLE, **resources}, **more}
        template["Outputs"] = {name: {"Value": value} for name, value in (outputs or {}).items()} | more.get(
            "Outputs", {}
        )
        put = self._client.update_stack if self._exists() else self._client.create_stack
        put(StackName=self.name, TemplateBody=json.dumps(template))
        described = self._client.describe_stacks(StackName=self.name)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}

    def _exists(self) -> bool:
        pages = self._client.get_paginator("describe_stacks").paginate()  # there are more stacks than a page holds
        return self.name in [stack["StackName"] for page in pages for stack in page["Stacks"]]

    def delete(self) -> None:
        self._client.delete_stack(StackName=self.name)

    def function(self, code: str | dict[str, str], **properties: Any) -> dict[str, Any]:
        """Return a function resource whose zip has ``code`` as index.py, or the given files."""
        files = {"index.py": code} if isinstance(code, str) else code
        key = f"{uuid.uuid4().hex}.zip"
        self._s3.put_object(Bucket=CODE_BUCKET, Key=key, Body=zipped(files))
        return {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Handler": "index.handler",
                "Runtime": "python3.12",
                "Timeout": 10,
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Code": {"S3Bucket": CODE_BUCKET, "S3Key": key},
                **properties,
            },
        }


def zipped(files: dict[str, str]) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return body.getvalue()


class Inbox:
    """A queue that collects the messages for which a test waits."""

    def __init__(self, cloud: LocalCloud) -> None:
        self._sqs = cloud.client("sqs")
        self.name = f"inbox-{uuid.uuid4().hex[:8]}"
        self.url = self._sqs.create_queue(QueueName=self.name)["QueueUrl"]
        self.arn = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]

    def next(self, timeout: int = 120) -> Any:
        """Return the next body, read as JSON, or None after ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            wait = max(0, min(20, round(deadline - time.monotonic())))
            for message in self._sqs.receive_message(
                QueueUrl=self.url, WaitTimeSeconds=wait, MessageAttributeNames=["All"]
            ).get("Messages", []):
                self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
                return json.loads(message["Body"])
            if time.monotonic() >= deadline:
                return None

    def all(self, count: int) -> list[Any]:
        """Return ``count`` bodies, in the order of arrival."""
        return [self.next() for _ in range(count)]

    def tokens(self, count: int) -> list[str]:
        """Return the task tokens of ``count`` bodies, many at a time."""
        tokens: list[str] = []
        while len(tokens) < count:
            options = {"QueueUrl": self.url, "WaitTimeSeconds": 20, "MaxNumberOfMessages": 10}
            received = self._sqs.receive_message(**options).get("Messages", [])
            tokens += [json.loads(message["Body"])["token"] for message in received]
        return tokens
