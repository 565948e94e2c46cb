"""A deployment without a cloud: moto's buckets, table and stacks, and a fake Step Functions."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.messages import Verbosity, set_verbosity
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import InputFile, Job, OutputKey
from cosmos_batch.contract.parameters import Parameters
from tests.support.moto_deployment import MACHINE as MACHINE
from tests.support.moto_deployment import moto_deployment

PIPELINE = "cosmos-reason2-2b"
STARTED = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
REFUSED = Error(code="InvalidInput", message="clip.mp4 has no frames.", remedy="Send a video that has some.")


@pytest.fixture(autouse=True)
def normal_verbosity() -> Iterator[None]:
    """Let no test print less or more because a command before it was given --quiet or --verbose."""
    yield
    set_verbosity(Verbosity.NORMAL)


class FakeStepFunctions:
    """A fake that returns the executions that a test has put, and records those that are started."""

    class exceptions:  # noqa: N801 - boto3's names
        class ExecutionDoesNotExist(Exception):  # noqa: N818
            pass

        class ExecutionAlreadyExists(Exception):  # noqa: N818
            pass

    def __init__(self) -> None:
        self.executions: dict[str, dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []
        self.started: list[dict[str, Any]] = []

    def put(self, name: str, status: str, **fields: Any) -> None:
        request = {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4"}
        self.executions[name] = {
            "name": name,
            "status": status,
            "startDate": STARTED,
            "input": json.dumps(request),
            **fields,
        }

    def describe_execution(self, executionArn: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        try:
            return self.executions[executionArn.rpartition(":")[2]]
        except KeyError:
            raise self.exceptions.ExecutionDoesNotExist from None

    def stop_execution(self, executionArn: str, error: str, cause: str) -> None:  # noqa: N803 - boto3's names
        self.executions[executionArn.rpartition(":")[2]] |= {"status": "ABORTED", "error": error, "cause": cause}

    def start_execution(self, **arguments: Any) -> None:
        self.started.append(arguments)

    def get_paginator(self, operation: str) -> Any:
        pages = {
            "list_executions": [{"executions": list(self.executions.values())}],
            "get_execution_history": [{"events": self.history}],
        }
        return type("Paginator", (), {"paginate": staticmethod(lambda **_: pages[operation])})


@pytest.fixture(autouse=True)
def no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("AWS_", "COSMOS_BATCH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def stepfunctions() -> FakeStepFunctions:
    return FakeStepFunctions()


@pytest.fixture
def deployment(stepfunctions: FakeStepFunctions) -> Iterator[Deployment]:
    with moto_deployment(stepfunctions) as made:
        yield made


@pytest.fixture
def found_by_commands(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands work with the deployment of the test, as if the shell pointed at it."""
    monkeypatch.setattr(deployments, "find", lambda: deployment)


@pytest.fixture
def job(deployment: Deployment) -> Job:
    """Provide a planned job, with its row."""
    job = Job(
        job_id="job-1",
        execution_arn=deployment.execution_arn("job-1"),
        pipeline=PIPELINE,
        input=InputFile(bucket="assets", key="clip.mp4", version_id="v1", etag='"e"', size=7),
        prompt="What happens?",
        prompt_uri=None,
        system_prompt="You are a helpful assistant.",
        parameters=Parameters(),
        document=OutputKey(bucket="assets", key="clip_CosmosReason_20261120-120000.json"),
        timestamp="20261120-120000",
        created_at=STARTED,
        deadline=STARTED.replace(year=2027),
        invalidate_model=False,
    )
    deployment.jobs.create(job)
    return job


def put_document(deployment: Deployment, job: Job) -> None:
    """Write the document of a job that has answered."""
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body='{"result": "Ein Bär"}'.encode())


def time_that_runs(happens: Callable[[], object]) -> SimpleNamespace:
    """Return a replacement for one module's `time`, whose `sleep` calls a function instead of waiting."""
    return SimpleNamespace(sleep=lambda _: happens(), monotonic=monotonic)
