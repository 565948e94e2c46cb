"""The register of probes, and the cloud with which they talk."""

from __future__ import annotations

import io
import json
import time
import uuid
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
ROLE_ARN = "arn:aws:iam::123456789012:role/probe"
ASSUME = {"Version": "2012-10-17", "Statement": []}


@dataclass(frozen=True)
class ProbedCloud:
    """The server that is probed: the local cloud, or plain moto."""

    endpoint: str

    def client(self, service: str, access_key: str = "local") -> Any:
        """Return a client that tries each call once."""
        config = Config(retries={"total_max_attempts": 1}, read_timeout=20)
        session = boto3.session.Session(access_key, "local", region_name=REGION)
        return session.client(service, endpoint_url=self.endpoint, config=config)

    def stack(self) -> ProbeStack:
        """Return a stack that does not exist yet."""
        return ProbeStack(self)

    def queue(self, **attributes: str) -> str:
        """Create a queue; return its URL."""
        suffix = ".fifo" if "FifoQueue" in attributes else ""
        return self.client("sqs").create_queue(QueueName=unique() + suffix, Attributes=attributes)["QueueUrl"]

    def queue_arn(self, url: str) -> str:
        """Return the ARN of a queue."""
        return self.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]

    def received(self, url: str, seconds: int = 2) -> list[Any]:
        """Return the bodies, read as JSON, of the messages that arrive before ``seconds`` pass without one."""
        bodies: list[Any] = []
        sqs = self.client("sqs")
        while messages := sqs.receive_message(QueueUrl=url, WaitTimeSeconds=seconds).get("Messages"):
            bodies += [json.loads(message["Body"]) for message in messages]
            for message in messages:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def events_to_queue(self, pattern: dict[str, Any]) -> str:
        """Send the events that match a pattern to a new queue; return its URL."""
        url, rule, events = self.queue(), unique(), self.client("events")
        events.put_rule(Name=rule, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=rule, Targets=[{"Id": "T", "Arn": self.queue_arn(url)}])
        return url

    def function(self, code: str, **properties: Any) -> dict[str, Any]:
        """Return a function resource whose ``index.handler`` is in ``code``."""
        s3, bucket, key = self.client("s3"), "probe-code", f"{unique()}.zip"
        s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=key, Body=zipped(code))
        properties = {"Handler": "index.handler", "Runtime": "python3.12", "Role": self.role(), **properties}
        return resource("AWS::Lambda::Function", Code={"S3Bucket": bucket, "S3Key": key}, **properties)

    def role(self) -> str:
        """Create the role that Lambda and Batch look for; return its ARN."""
        trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
        error_code(self.client("iam").create_role, RoleName="probe", AssumeRolePolicyDocument=document)
        return ROLE_ARN

    def run_machine(self, states: dict[str, Any], machine_input: Any = None) -> dict[str, Any]:
        """Run a machine that starts with the first state; return the description of its execution."""
        client = self.client("stepfunctions")
        definition = json.dumps({"StartAt": next(iter(states)), "States": states})
        machine = client.create_state_machine(name=unique(), definition=definition, roleArn=ROLE_ARN)
        arn = client.start_execution(stateMachineArn=machine["stateMachineArn"], input=json.dumps(machine_input or {}))[
            "executionArn"
        ]
        return until(lambda: (d := client.describe_execution(executionArn=arn))["status"] != "RUNNING" and d)


class ProbeStack:
    """A stack with a name of its own."""

    def __init__(self, cloud: ProbedCloud) -> None:
        self._client = cloud.client("cloudformation")
        self.name = unique()
        self._exists = False

    def put(self, resources: dict[str, Any], outputs: dict[str, Any] | None = None, **more: Any) -> dict[str, str]:
        """Create or update the stack; return its outputs."""
        template = {"Resources": resources, "Outputs": {}, **more}
        template["Outputs"] |= {name: {"Value": value} for name, value in (outputs or {}).items()}
        put = self._client.update_stack if self._exists else self._client.create_stack
        self._exists = True
        put(StackName=self.name, TemplateBody=json.dumps(template))
        described = self._client.describe_stacks(StackName=self.name)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}

    def put_one(self, resource_of_stack: dict[str, Any], attribute: str = "Ref") -> str:
        """Create or update a stack of one resource; return its ``Ref``, or another attribute of it."""
        value = {"Ref": "R"} if attribute == "Ref" else {"Fn::GetAtt": ["R", attribute]}
        return self.put({"R": resource_of_stack}, {"Value": value})["Value"]

    def delete(self) -> None:
        """Delete the stack."""
        self._client.delete_stack(StackName=self.name)


Probe = Callable[[ProbedCloud], Any]
PROBES: dict[str, Probe] = {}


def probe(name: str) -> Callable[[Probe], Probe]:
    """Register the decorated function as the probe of a patch."""

    def register(function: Probe) -> Probe:
        assert name not in PROBES, f"two probes of {name}"
        PROBES[name] = function
        return function

    return register


def resource(type_name: str, **properties: Any) -> dict[str, Any]:
    """Return a resource of a template."""
    return {"Type": type_name, "Properties": properties}


def unique() -> str:
    """Return a name that nothing else has."""
    return f"p{uuid.uuid4().hex[:12]}"


def until(condition: Callable[[], Any], seconds: float = 5.0) -> Any:
    """Return the first true value of ``condition``.

    Raises
    ------
    TimeoutError
        It had none within ``seconds``.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise TimeoutError(f"no true value within {seconds} s")


def error_code(call: Callable[..., Any], **arguments: Any) -> str:
    """Return the code of the error with which a call is refused, or an empty text if it succeeds."""
    try:
        call(**arguments)
    except Exception as error:
        return getattr(error, "response", {}).get("Error", {}).get("Code", type(error).__name__)
    return ""


def zipped(code: str) -> bytes:
    """Return a zip with ``code`` as index.py."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("index.py", code)
    return body.getvalue()
