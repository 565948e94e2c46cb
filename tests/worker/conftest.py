"""A worker on moto with the scripted engine. Only Step Functions is a fake, as task tokens need executions."""

import asyncio
import dataclasses
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.sqs.models import Message, SQSBackend
from PIL import Image

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.job import InputFile, Job, JobMessage, OutputKey
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.local.moto_patches import sqs
from cosmos_batch.state import ItemJobs, RunRow, Runs, ShardRow, StagedDocuments, Table, Watcher, Workers
from cosmos_batch.worker import loop
from cosmos_batch.worker.assembly import assemble
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.leases import LeaseHolder
from tests.support.moto_dynamodb import patch_dynamodb
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.engines import PATIENCE

ASSETS, STATE, TABLE = "assets-bucket", "state-bucket", "state-table"
IDENTITY = Identity(model="a folder", engine="scripted", configuration="the configuration")


@dataclass
class FakeStepFunctions:
    """Records its calls. Tokens in `gone` get the error of a stopped execution, those in `broken` that code."""

    gone: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def send_task_heartbeat(self, **arguments: Any) -> None:
        self._answer("heartbeat", arguments)

    def send_task_success(self, **arguments: Any) -> None:
        self._answer("success", arguments)

    def send_task_failure(self, **arguments: Any) -> None:
        self._answer("failure", arguments)

    def _answer(self, what: str, arguments: dict[str, Any]) -> None:
        self.calls.append((what, arguments))
        code = self.broken.get(arguments["taskToken"]) or (
            "TaskTimedOut" if arguments["taskToken"] in self.gone else ""
        )
        if code:
            raise ClientError({"Error": {"Code": code, "Message": code}}, "SendTask")

    def calls_of(self, what: str) -> list[dict[str, Any]]:
        return [arguments for kind, arguments in self.calls if kind == what]


class WorkerFixture:
    """The queue, table and buckets of one pipeline, with methods to create jobs and workers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.s3 = boto3.client("s3")
        self.sqs = boto3.client("sqs")
        for bucket in (ASSETS, STATE):
            self.s3.create_bucket(Bucket=bucket)
        self.s3.put_bucket_versioning(Bucket=ASSETS, VersioningConfiguration={"Status": "Enabled"})
        self.queue_url = self.sqs.create_queue(QueueName="jobs", Attributes={"VisibilityTimeout": "60"})["QueueUrl"]
        dynamodb = boto3.client("dynamodb")
        dynamodb.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        )
        self.table = Table(dynamodb, TABLE)
        self.jobs = ItemJobs(self.table)
        self.runs = Runs(self.table)
        self.staged = StagedDocuments(self.table, self.s3, STATE)
        self.workers = Workers(self.table, "cosmos-reason2-2b")
        self.stepfunctions = FakeStepFunctions()
        Image.new("RGB", (64, 48), "red").save(folder / "picture.png")
        self._picture = (folder / "picture.png").read_bytes()

    def job(self, name: str = "one", prompt: str = "What?", create: bool = True, **changes: Any) -> Job:
        """Plan a job whose file is in its bucket; without `create` it has no row yet."""
        put = self.s3.put_object(Bucket=ASSETS, Key=f"in/{name}.png", Body=changes.pop("body", self._picture))
        now = datetime.now(UTC)
        job = Job(
            job_id=name,
            execution_arn=f"arn:aws:states:us-east-1:123456789012:execution:machine:{name}",
            pipeline="cosmos-reason2-2b",
            input=InputFile(
                bucket=ASSETS, key=f"in/{name}.png", version_id=put["VersionId"], etag=put["ETag"], size=10
            ),
            prompt=prompt,
            prompt_uri=None,
            system_prompt="You are a helpful assistant.",
            parameters=Parameters(),
            document=OutputKey(bucket=ASSETS, key=f"out/{name}.json"),
            timestamp="20260410-165029",
            created_at=now,
            deadline=now + timedelta(hours=1),
            invalidate_model=False,
            planned_for=IDENTITY,
        ).model_copy(update=changes)
        if create:
            self.jobs.create(job)
        return job

    def send(self, job: Job) -> None:
        message = JobMessage(schema_version=4, task_token=f"token-{job.job_id}", job=job)
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=message.model_dump_json())

    def send_item(self, job: Job, *watchers: Watcher, table_only: bool = False) -> None:
        """Send the job of an item, which the runs of all `watchers` wait for, as the feeding of a run does."""
        for watcher in watchers:
            self.jobs.watch(job, watcher, retry=False)
        message = JobMessage(schema_version=5, run=watchers[0].run, table_only=table_only, job=job)
        self.sqs.send_message(QueueUrl=self.queue_url, MessageBody=message.model_dump_json())

    def feed(self, run: str, items: int, shard: str = "00000") -> None:
        """Write the rows of a run with one shard, which waits for its `items` items with the token `shard-of-<run>`."""
        row = RunRow(id=run, state="RUNNING", items=items, shards=1, started_at=datetime.now(UTC).isoformat())
        self.runs.create(row)
        ref = ShardRef(run=run, shard=shard, pipeline="cosmos-reason2-2b", items=items)
        self.runs.shards.feed(ref, f"shard-of-{run}", expected_dollars=0.0)
        self.runs.shards.fed(run, shard, items, float(items))

    def shard(self, run: str) -> ShardRow:
        """Return the row of a run's first shard."""
        row = self.runs.shards.get(run, "00000")
        assert row is not None
        return row

    def environment(
        self, name: str, engine: str = "unused", image_cuda: str | None = None, **settings: Any
    ) -> WorkerEnvironment:
        """Return the environment of a worker."""
        return WorkerEnvironment(
            aws_batch_job_id=name,
            pipeline="cosmos-reason2-2b",
            model=str(self.folder),
            engine=engine,
            configuration=IDENTITY.configuration,
            queue_url=self.queue_url,
            state_table=TABLE,
            state_bucket=STATE,
            model_bucket="model-bucket",
            model_store=str(self.folder),
            image_cuda=image_cuda,
            worker=WorkerSettings(**{"idle_seconds": 0, "heartbeat_seconds": 1, **settings}),
        )

    def worker(
        self, name: str = "worker-1", engine: Any = None, store: Any = None, **settings: Any
    ) -> "InProcessWorker":
        return InProcessWorker(self, self.environment(name, **settings), engine or ScriptedEngine(), store)

    def attempts(self, name: str) -> int:
        """Return the number of attempts of a planned job."""
        row = self.jobs.get(name)
        assert row is not None
        return row.attempts

    def document(self, name: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=ASSETS, Key=f"out/{name}.json")["Body"].read()
        return body

    def waiting(self) -> tuple[int, int]:
        """Return the number of visible messages and of messages in flight."""
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.queue_url, AttributeNames=["All"])["Attributes"]
        return (
            int(attributes["ApproximateNumberOfMessages"]),
            int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        )


class InProcessWorker:
    """A worker that a test runs in its own event loop."""

    def __init__(self, bench: WorkerFixture, environment: WorkerEnvironment, engine: Any, store: Any) -> None:
        ours, theirs = socket.socketpair()
        self.channel = ours
        self.loop = assemble(environment, Clients(), LeaseHolder(theirs), engine)
        self.runner = self.loop.runner
        self._share(bench)
        if store is not None:
            self.model._store = store
        bench.workers.submitted(environment.aws_batch_job_id, "definition:1")
        bench.workers.started(environment.aws_batch_job_id)

    def _share(self, bench: WorkerFixture) -> None:
        """Give the worker the fakes and the tables of the test."""
        self.model = self.runner.model
        self.runner.jobs, self.runner.workers = bench.jobs, bench.workers
        self.runner.inference.jobs = bench.jobs
        self.loop._workers = bench.workers
        self.runner.task_tokens._stepfunctions = bench.stepfunctions
        self.runner.callers._jobs, self.runner.callers._runs = bench.jobs, bench.runs
        endings = self.runner.endings
        endings.jobs, endings.committer = bench.jobs, dataclasses.replace(endings.committer, jobs=bench.jobs)

    async def serve(self) -> None:
        await self.model.load()
        await self.loop.serve()
        await self.model.backed_up()

    def run(self) -> None:
        """Serve until the queue is empty."""
        asyncio.run(asyncio.wait_for(self.serve(), PATIENCE))


def receive_soon(self: SQSBackend, queue: str, count: int, wait_seconds: int, *arguments: Any) -> list[Message]:
    """Receive as the local cloud does, but wait for a tenth of the time: each worker waits before it leaves."""
    return sqs.receive_message(self, queue, count, wait_seconds / 10, *arguments)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerFixture]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(loop, "POLL_SECONDS", 1)
    monkeypatch.setattr(SQSBackend, "receive_message", receive_soon)
    patch_dynamodb(monkeypatch)
    (tmp_path / "config.json").write_text("{}")
    with mock_aws():
        yield WorkerFixture(tmp_path)
