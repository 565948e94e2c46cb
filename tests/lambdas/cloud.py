"""The services that the functions call: moto in this process, and fakes of the calls that moto does not implement."""

import json
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import (
    CloseQueueEnvironment,
    CollectEnvironment,
    DeadLetterEnvironment,
    DeployedCompute,
    DeployedPipeline,
    DeployedQueue,
    Environment,
    FeedEnvironment,
    FinishRunEnvironment,
    PipelineRef,
    PlanEnvironment,
    PrepareRunEnvironment,
    ReportEnvironment,
    ScaleEnvironment,
    UploadEnvironment,
    VamsEnvironment,
)
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import Table

EVENTS = Path(__file__).parent.parent / "events"
SMALL, LARGE, NANO = "cosmos-reason2-2b", "cosmos-reason2-8b", "cosmos3-nano"
JOB_QUEUE = "arn:aws:batch:us-east-1:123456789012:job-queue/reason2B"
DEFINITION = "arn:aws:batch:us-east-1:123456789012:job-definition/reason2B:1"
BUS = "arn:aws:events:us-east-1:123456789012:event-bus/vams-orchestration"
LOG_GROUP = "arn:aws:logs:us-east-1:123456789012:log-group:/cosmos/machine:*"
IDENTITY = Identity(model="nvidia/Cosmos-Reason2-2B", engine="auto", configuration="the configuration")
TABLE, STATE_BUCKET = "state", "state-bucket"
KEY_SCHEMA = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
KEY_TYPES = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]


def event(name: str) -> Any:
    """Return an event in the form in which AWS or VAMS sends it."""
    return json.loads((EVENTS / f"{name}.json").read_text())


def sqs_batch(*bodies: object) -> dict[str, Any]:
    """Return an event with SQS records that have these bodies and the ids `m0`, `m1`, ..."""
    [record] = event("sqs")["Records"]
    texts = [body if isinstance(body, str) else json.dumps(body) for body in bodies]
    return {"Records": [{**record, "messageId": f"m{number}", "body": text} for number, text in enumerate(texts)]}


class ResponseUrl(NamedTuple):
    """A URL at which CloudFormation waits for the answer to a request, and the answers that were put to it."""

    url: str
    answers: list[dict[str, Any]]


class FakeTokens:
    """A client of moto's Step Functions that records answers to task tokens, and refuses them if a test says so."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.answers: list[dict[str, str]] = []
        self.refusal: str | None = None
        self._starting = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def start_execution(self, **call: str) -> Any:
        """Start one execution at a time: moto checks a name and takes it in two steps."""
        with self._starting:
            return self._real.start_execution(**call)

    def send_task_success(self, **answer: str) -> None:
        self._take(answer)

    def send_task_failure(self, **answer: str) -> None:
        self._take(answer)

    def _take(self, answer: dict[str, str]) -> None:
        if self.refusal is not None:
            raise ClientError({"Error": {"Code": self.refusal, "Message": ""}}, "SendTask")
        self.answers.append(answer)


class FakeBatch:
    """A fake of Batch that records submitted jobs, whose descriptions a test may change."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []
        self.jobs: dict[str, dict[str, Any]] = {}

    def submit_job(self, **call: Any) -> dict[str, str]:
        job_id = f"job-{len(self.submitted)}"
        self.submitted.append(call)
        self.jobs[job_id] = {
            "jobId": job_id,
            "status": "RUNNABLE",
            "jobDefinition": call["jobDefinition"],
            "createdAt": time.time() * 1000,
        }
        return {"jobId": job_id}

    def terminate_job(self, jobId: str, reason: str) -> None:  # noqa: N803 - boto3's name
        self.jobs[jobId] |= {"status": "FAILED", "statusReason": reason}

    def describe_job_queues(self, jobQueues: list[str]) -> dict[str, Any]:  # noqa: N803
        order = [{"order": 1, "computeEnvironment": "one"}, {"order": 2, "computeEnvironment": "two"}]
        return {"jobQueues": [{"jobQueueArn": jobQueues[0], "status": "VALID", "computeEnvironmentOrder": order}]}

    def describe_compute_environments(self, computeEnvironments: list[str]) -> dict[str, Any]:  # noqa: N803
        invalid = {"status": "INVALID", "statusReason": "CLIENT_ERROR - no such subnet"}
        valid = {"status": "VALID", "statusReason": "ComputeEnvironment Healthy"}
        types = (["g6e.12xlarge"], ["g5.12xlarge"])
        assert computeEnvironments == ["one", "two"]
        environments = zip((invalid, valid), types, strict=True)
        return {
            "computeEnvironments": [
                {**state, "computeResources": {"instanceTypes": names}} for state, names in environments
            ]
        }

    def describe_jobs(self, jobs: list[str]) -> dict[str, Any]:
        assert len(jobs) <= 100
        return {"jobs": [self.jobs[job] for job in jobs if job in self.jobs]}


class FakeEvents:
    """A fake of EventBridge that records the published entries."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []

    def put_events(self, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's name
        self.entries += Entries
        return {"FailedEntryCount": 0, "Entries": [{}]}


@cache
def _real(service: str) -> Any:
    """Return a client that all tests share, for creating one takes long; moto's state is new for each test."""
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


class Cloud:
    """An account with the resources of the functions. The bucket `assets` has versioning, `plain` has not."""

    def __init__(self) -> None:
        self.s3 = _real("s3")
        self.sqs = _real("sqs")
        self.dynamodb = _real("dynamodb")
        self.ssm = _real("ssm")
        self.stepfunctions = FakeTokens(_real("stepfunctions"))
        self.batch = FakeBatch()
        self.events = FakeEvents()
        for bucket in ("assets", "plain", STATE_BUCKET, "elsewhere"):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_versioning(Bucket="assets", VersioningConfiguration={"Status": "Enabled"})
        self.dynamodb.create_table(
            TableName=TABLE, KeySchema=KEY_SCHEMA, AttributeDefinitions=KEY_TYPES, BillingMode="PAY_PER_REQUEST"
        )
        self.table = Table(self.dynamodb, TABLE)
        self.uploads = self._queue("uploads")
        self.nudges = self._queue("nudges.fifo", FifoQueue="true")
        self.jobs_queue = self._queue("jobs")
        self.machine = self.stepfunctions.create_state_machine(
            name="cosmos", definition="{}", roleArn="arn:aws:iam::123456789012:role/machine"
        )["stateMachineArn"]

    def _queue(self, name: str, **attributes: str) -> str:
        url: str = self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def client(self, service: str, **_: Any) -> Any:
        """Return a client; this replaces `boto3.client`."""
        return getattr(self, service)

    def environments(
        self,
        auto_trigger: str = "",
        grace_seconds: int = 10,
        callback_role: str | None = None,
        generator: Serving | None = None,
        vams_pipeline: str = SMALL,
    ) -> list[Environment]:
        """Return the environments of all functions, with a generator if its `Serving` is given."""
        pipelines = [
            PipelineRef(id=SMALL, auto_trigger=[auto_trigger] if auto_trigger else []),
            PipelineRef(id=LARGE),
            *([PipelineRef(id=NANO)] if generator else []),
        ]
        queues = [DeployedQueue(id=SMALL, queue_url=self.jobs_queue, identity=IDENTITY)]
        if generator:
            queues.append(DeployedQueue(id=NANO, queue_url=self.jobs_queue, identity=IDENTITY, serving=generator))
        compute = DeployedCompute(
            id=SMALL,
            queue_url=self.jobs_queue,
            job_queue=JOB_QUEUE,
            job_definition=DEFINITION,
            max_workers=4,
            vcpus=12,
            max_life_hours=24,
        )
        return [
            UploadEnvironment(
                state_machine_arn=self.machine,
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                upload_queue_url=self.uploads,
                pipelines=pipelines,
                grace_seconds=grace_seconds,
            ),
            PlanEnvironment(
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                asset_buckets=["assets", "plain/inbox/"],
                pipeline_parameters=[self.deploy_pipeline(queue, compute) for queue in queues],
                pipelines_digest="0123456789abcdef",
                nudge_queue_url=self.nudges,
                deadline_seconds=3600,
            ),
            FeedEnvironment(
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                asset_buckets=["assets", "plain/inbox/"],
                pipeline_parameters=[self.deploy_pipeline(queue, compute) for queue in queues],
                pipelines_digest="0123456789abcdef",
                nudge_queue_url=self.nudges,
            ),
            PrepareRunEnvironment(
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                asset_buckets=["assets", "plain/inbox/"],
                pipeline_parameters=[self.deploy_pipeline(queue, compute) for queue in queues],
            ),
            CollectEnvironment(state_table=TABLE, state_bucket=STATE_BUCKET),
            FinishRunEnvironment(state_table=TABLE, state_bucket=STATE_BUCKET, callback_role_arn=callback_role),
            ReportEnvironment(state_table=TABLE, callback_role_arn=callback_role),
            DeadLetterEnvironment(state_table=TABLE),
            CloseQueueEnvironment(state_table=TABLE),
            VamsEnvironment(
                state_machine_arn=self.machine,
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                pipeline=vams_pipeline,
                task_timeout_seconds=28_800,
                callback_role_arn=callback_role,
                orchestration_bus=BUS,
                log_group_arn=LOG_GROUP,
            ),
            ScaleEnvironment(
                state_table=TABLE,
                state_bucket=STATE_BUCKET,
                nudge_queue_url=self.nudges,
                pipeline_parameters=[self.deploy_pipeline(queues[0], compute)],
                scaling=ScalingSettings(target_drain_seconds=10),
            ),
        ]

    def deploy_pipeline(self, queue: DeployedQueue, compute: DeployedCompute) -> str:
        """Write the SSM parameter of a pipeline, as a deployment does; returns its name."""
        name = f"CFN-{queue.id}"
        deployed = DeployedPipeline(queue=queue, compute=compute.model_copy(update={"id": queue.id}))
        self.ssm.put_parameter(Name=name, Value=deployed.model_dump_json(), Type="String", Overwrite=True)
        return name

    def put(self, key: str, body: bytes = b"hello", bucket: str = "assets", **arguments: Any) -> str | None:
        """Upload a file and return its version."""
        version: str | None = self.s3.put_object(Bucket=bucket, Key=key, Body=body, **arguments).get("VersionId")
        return version

    def executions(self) -> list[dict[str, Any]]:
        """Return all executions, each with its `input` parsed."""
        executions = self.stepfunctions.list_executions(stateMachineArn=self.machine)["executions"]
        described = [
            self.stepfunctions.describe_execution(executionArn=execution["executionArn"]) for execution in executions
        ]
        return [{**one, "input": json.loads(one["input"])} for one in reversed(described)]

    def messages(self, queue_url: str) -> list[dict[str, Any]]:
        """Return up to ten messages that wait in a queue, parsed."""
        answer = self.sqs.receive_message(QueueUrl=queue_url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        return [json.loads(message["Body"]) for message in answer.get("Messages", [])]
