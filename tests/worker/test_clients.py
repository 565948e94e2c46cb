"""Each call of a worker's AWS clients names this program as its user agent."""

from typing import Any

import boto3
import botocore
import pytest

from cosmos_batch.worker.clients import Clients
from tests.worker.conftest import WorkerFixture


@pytest.mark.parametrize(
    ("service", "call"),
    [
        ("s3", lambda client: client.list_buckets()),
        ("sqs", lambda client: client.list_queues()),
        ("dynamodb", lambda client: client.list_tables()),
        ("stepfunctions", lambda client: client.list_state_machines()),
        ("secretsmanager", lambda client: client.list_secrets()),
    ],
)
def test_calls_name_this_program_without_what_botocore_would_build_for_each(
    bench: WorkerFixture, service: str, call: Any
) -> None:
    """Building it takes a quarter of a call's CPU time."""
    agents: list[Any] = []
    client = getattr(Clients(), service)
    client.meta.events.register("before-send", lambda request, **_: agents.append(request.headers["User-Agent"]))
    call(client)
    [agent] = [agent.decode() if isinstance(agent, bytes) else agent for agent in agents]
    assert agent == f"Boto3/{boto3.__version__} cosmos-batch Botocore/{botocore.__version__}"
