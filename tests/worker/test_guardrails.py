"""A worker takes the models of guardrails from the model store, as it takes the pipeline's model."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import boto3
import pytest
from huggingface_hub import constants

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.contract.error import Failure
from cosmos_batch.worker.assembly import assemble
from cosmos_batch.worker.clients import Clients
from cosmos_batch.worker.resident_model import ResidentModel
from tests.support.guardrail_files import FORBIDDEN, write_block_list, write_prompt_checker
from tests.support.model_hub import Hub
from tests.support.scripted_generator import ScriptedGenerator
from tests.worker.conftest import WorkerFixture
from tests.worker.test_credentials import lease_holder
from tests.worker.test_generations import SERVING

MODELS = GENERATOR_ABILITIES["cosmos-framework"].guardrail_models
TOKEN = "hf_of_one_who_accepted"


class Guarded(ScriptedGenerator):
    """An engine whose guardrails are models on the Hub."""

    guardrail_models: ClassVar[dict[str, Path]] = {}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with Hub(gated={MODELS[0]}, accepted={TOKEN}) as hub:
        hub.add(MODELS[0], write_block_list(tmp_path / "words"))
        hub.add(MODELS[1], write_prompt_checker(tmp_path / "checker"))
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        boto3.client("s3").create_bucket(Bucket="model-bucket")
        yield hub


@pytest.fixture
def environment(bench: WorkerFixture) -> WorkerEnvironment:
    """Return the environment of a worker with a Hugging Face token."""
    secret = boto3.client("secretsmanager").create_secret(Name="token", SecretString=TOKEN)["ARN"]
    serving = SERVING.model_copy(update={"engine": "cosmos-framework"})
    changes = {"pipeline": "cosmos3-nano", "serving": serving, "hf_token_secret": secret}
    return bench.environment("worker-1", "cosmos-framework").model_copy(update=changes)


def load(environment: WorkerEnvironment, engine: Guarded) -> ResidentModel:
    model = assemble(environment, Clients(), lease_holder(), engine).runner.model

    async def scene() -> None:
        await model.load()
        await model.backed_up()

    asyncio.run(scene())
    return model


def test_guardrail_models_are_fetched_and_backed_up_for_the_next_worker(
    environment: WorkerEnvironment, hub: Hub
) -> None:
    engine = Guarded()
    load(environment, engine)
    assert tuple(engine.guardrail_models) == MODELS
    assert FORBIDDEN in (engine.guardrail_models[MODELS[0]] / "blocklist" / "custom" / "words").read_text()
    for model in MODELS:  # an empty file system, without a way to the Hub
        shutil.rmtree(Path(environment.model_store) / model.replace("/", "--"))
    hub.status, hub.requests = 503, 0
    again = Guarded()
    load(environment, again)
    assert again.guardrail_models == engine.guardrail_models and hub.requests == 0


def test_the_loaded_commits_are_written_to_the_workers_row(environment: WorkerEnvironment, hub: Hub) -> None:
    """`scale` asks the worker to leave when another one is recorded."""
    runner = assemble(environment, Clients(), lease_holder(), Guarded()).runner
    runner.workers.started("worker-1")

    async def scene() -> None:
        await runner.model.load()
        await runner.record_model()
        await runner.model.backed_up()

    asyncio.run(scene())
    row = runner.workers.get("worker-1")
    assert row is not None and row.guardrails == {model: hub.repositories[model].main for model in MODELS}


def test_an_unaccepted_license_fails_with_the_way_to_disable_guardrails(
    environment: WorkerEnvironment, hub: Hub
) -> None:
    hub.accepted.clear()
    with pytest.raises(Failure) as raised:
        load(environment, Guarded())
    error = raised.value.error
    assert error.code == "ModelUnavailable" and not error.retryable
    assert f"The guardrails need {MODELS[0]}" in error.message and "licence" in error.message
    assert f"{hub.url}/{MODELS[0]}" in error.remedy
    assert "app.pipelines.useNvidiaCosmos3.modelsOmni.nano16B.guardrails to false in config.json" in error.remedy


@pytest.mark.parametrize("changes", [{"serving": SERVING.model_copy(update={"guardrails": False})}, {"serving": None}])
def test_without_guardrails_no_model_of_theirs_is_fetched(
    environment: WorkerEnvironment, hub: Hub, changes: dict[str, object]
) -> None:
    engine = Guarded()
    load(environment.model_copy(update=changes), engine)
    assert not engine.guardrail_models and not hub.requests
