"""A worker of a remote model server: it downloads no model, and reads the API key from a secret."""

import asyncio
from datetime import UTC, datetime

import boto3
import pytest

from cosmos_batch.contract.endpoint import Endpoint
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import Serving
from cosmos_batch.engines.generator.nim.endpoint import NimEndpointEngine
from cosmos_batch.engines.generator.vllm_omni.endpoint import OmniEndpointEngine
from cosmos_batch.engines.protocol import RemoteEngine
from cosmos_batch.engines.reasoner.endpoint import EndpointEngine
from cosmos_batch.worker.assembly import assemble, engine_for
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.credentials import EndpointKey
from cosmos_batch.worker.model_copies import EndpointModel
from tests.support.scripted_engine import ScriptedEngine
from tests.worker.conftest import WorkerFixture
from tests.worker.test_credentials import SECRET, RefusedClients, lease_holder

ENDPOINT = Endpoint(url="https://example.com/v1", api_key_secret_arn=SECRET)


def environment(bench: WorkerFixture) -> WorkerEnvironment:
    environment_of_worker = bench.environment("worker-1", engine="endpoint").model_copy(update={"endpoint": ENDPOINT})
    assert WorkerEnvironment.read(environment_of_worker.variables()) == environment_of_worker, (
        "as the container is given it"
    )
    return environment_of_worker


def test_the_api_key_is_the_value_of_the_secret(bench: WorkerFixture) -> None:
    secrets = boto3.client("secretsmanager")
    arn = secrets.create_secret(Name="key", SecretString="nvapi-x\n")["ARN"]
    key = EndpointKey(arn, Clients())
    assert key.read() == "nvapi-x"
    secrets.put_secret_value(SecretId=arn, SecretString="nvapi-y")
    assert key.read() == "nvapi-y", "no copy is kept of what may be replaced"
    assert EndpointKey(None, Clients()).read() is None


@pytest.mark.parametrize("clients", [Clients(), RefusedClients()])
def test_an_unreadable_secret_is_a_failure_with_a_remedy(bench: WorkerFixture, clients: Clients) -> None:
    with pytest.raises(Failure) as raised:
        EndpointKey(SECRET, clients).read()
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert "role may read it" in raised.value.error.remedy


def test_the_environment_decides_which_engine_is_created(bench: WorkerFixture) -> None:
    assert isinstance(engine_for(environment(bench), Clients()), EndpointEngine)
    for guardrails in (True, False):
        serving = Serving(engine="vllm-omni", guardrails=guardrails, max_resolution="720p", plans={})
        generator = engine_for(environment(bench).model_copy(update={"serving": serving}), Clients())
        assert isinstance(generator, OmniEndpointEngine) and generator.guardrails is guardrails
        by_nim = environment(bench).model_copy(
            update={
                "serving": serving.model_copy(update={"engine": "nim"}),
                "endpoint": ENDPOINT.model_copy(update={"api": "nim"}),
            }
        )
        assert WorkerEnvironment.read(by_nim.variables()) == by_nim, "as the container is given it"
        generator = engine_for(by_nim, Clients())
        assert isinstance(generator, NimEndpointEngine) and generator.guardrails is guardrails
    scripted = bench.environment("worker-1", engine="tests.support.scripted_engine:ScriptedEngine")
    assert isinstance(engine_for(scripted, Clients()), ScriptedEngine)


class ScriptedRemoteEngine(ScriptedEngine):
    """An engine whose model has another name on its server than in the configuration."""

    remote_model = "nvidia/cosmos-reason2-8b"

    async def is_available(self) -> bool:
        return True


def test_the_model_has_its_name_on_the_server(bench: WorkerFixture) -> None:
    model = assemble(environment(bench), Clients(), lease_holder(), ScriptedRemoteEngine()).runner.model
    asyncio.run(model.load())
    assert model.stored.model == "nvidia/cosmos-reason2-8b"
    assert isinstance(EndpointEngine(ENDPOINT, lambda: None), RemoteEngine)


def test_a_remote_model_is_neither_stored_nor_renewed(bench: WorkerFixture) -> None:
    model = assemble(environment(bench), Clients(), lease_holder(), ScriptedEngine()).runner.model
    asyncio.run(model.load())
    assert (model.stored.model, model.stored.commit) == (bench.environment("w").model, "unknown")
    assert not model.too_old_for(bench.job(invalidate_model=True, created_at=datetime.now(UTC)))
    assert EndpointModel().back_up(model.stored) is False
