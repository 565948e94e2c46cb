"""The Hugging Face token, which a worker reads when its model must be downloaded."""

import asyncio
import socket
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.settings import WorkerSettings
from cosmos_batch.worker.assembly import assemble
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.credentials import HubToken
from cosmos_batch.worker.leases import LeaseHolder
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import STATE, TABLE, WorkerFixture

SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret:token-AbCdEf"


@pytest.mark.parametrize("value", ["hf_x", "hf_x\n"])
def test_the_token_is_the_value_of_the_secret(bench: WorkerFixture, value: str) -> None:
    arn = boto3.client("secretsmanager").create_secret(Name="token", SecretString=value)["ARN"]
    assert HubToken(arn, Clients()).read() == "hf_x"


def test_without_a_secret_or_a_value_there_is_no_token(bench: WorkerFixture) -> None:
    assert HubToken(None, Clients()).read() is None
    assert HubToken(boto3.client("secretsmanager").create_secret(Name="token")["ARN"], Clients()).read() is None


def test_a_secret_that_is_no_text_is_a_failure_with_a_remedy(bench: WorkerFixture) -> None:
    arn = boto3.client("secretsmanager").create_secret(Name="token", SecretBinary=b"hf_x")["ARN"]
    with pytest.raises(Failure) as raised:
        HubToken(arn, Clients()).read()
    assert "has a text for a value" in raised.value.error.remedy


def test_an_unreadable_secret_is_a_failure_with_a_remedy(bench: WorkerFixture) -> None:
    with pytest.raises(Failure) as raised:
        HubToken(SECRET, RefusedClients()).read()
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert "AccessDeniedException" in raised.value.error.message
    assert "role may read it" in raised.value.error.remedy


class RefusedClients(Clients):
    """Clients to which AWS refuses every call, as for a role without the permission."""

    @property
    def secretsmanager(self) -> Any:  # type: ignore[override]
        client = boto3.client("secretsmanager")
        stubber = Stubber(client)
        stubber.add_client_error("get_secret_value", "AccessDeniedException", "not authorized")
        stubber.activate()
        return client


def test_without_a_route_to_secrets_the_remedy_is_to_put_the_model_in_place(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.s3.create_bucket(Bucket="model-bucket")  # and nothing in it
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # nobody listens
        monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", f"http://127.0.0.1:{unused.getsockname()[1]}")
        model = assemble(environment(bench), Clients(), lease_holder(), ScriptedEngine()).runner.model
        with pytest.raises(Failure) as raised:
            asyncio.run(model.load())
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert "Could not connect" in raised.value.error.message
    assert "cosmos-batch models put" in raised.value.error.remedy


def environment(bench: WorkerFixture) -> WorkerEnvironment:
    return WorkerEnvironment(
        aws_batch_job_id="worker-1",
        pipeline="cosmos-reason2-2b",
        model="nvidia/Cosmos-Reason2-2B",
        engine="unused",
        queue_url=bench.queue_url,
        state_table=TABLE,
        state_bucket=STATE,
        model_bucket="model-bucket",
        model_store=str(bench.folder / "efs"),
        hf_token_secret=SECRET,
        worker=WorkerSettings(),
    )


def lease_holder() -> LeaseHolder:
    return LeaseHolder(socket.socketpair()[1])


def test_a_missing_route_to_secrets_is_noticed_within_seconds(bench: WorkerFixture) -> None:
    config = Clients().secretsmanager.meta.config
    assert config.connect_timeout * config.retries["total_max_attempts"] == 10
