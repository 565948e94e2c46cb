"""A pipeline whose model is on somebody else's server: its worker knows it, and may read its key and no other's."""

import json
from pathlib import Path

import pytest

from cosmos_batch.contract import Config
from cosmos_batch.contract.environment import WorkerEnvironment
from infra.synth import synthesize
from tests.infra.assembly import Assembly, resolve

ACCOUNT = "123456789012"
SECRET = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:nim-AbCdEf"
KEY = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
ENDPOINT = {"url": "https://nim.example.com/v1", "apiKeySecretArn": SECRET, "apiKeySecretKeyArn": KEY}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    models = {
        "reason2B": {"enabled": True, "engine": "endpoint", "endpoint": ENDPOINT},
        "reason8B": {"enabled": True},
    }
    block = {"enabled": True, "modelsReason": models}
    config = Config.parse(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": block}}}))
    outdir: Path = tmp_path_factory.mktemp("endpoint") / "cdk.out"
    return Assembly(synthesize(config, outdir))


def test_the_worker_is_told_of_its_server(assembly: Assembly) -> None:
    definition = assembly.one("Pipelines", "Batch::JobDefinition", "cosmosreason22b")
    variables = {one["Name"]: resolve(one["Value"]) for one in definition["ContainerProperties"]["Environment"]}
    environment = WorkerEnvironment.read({**variables, "AWS_BATCH_JOB_ID": "a-job"})
    assert environment.engine == "endpoint" and environment.endpoint is not None
    assert ENDPOINT.items() <= environment.endpoint.model_dump().items()


def test_it_alone_may_read_the_key(assembly: Assembly) -> None:
    allowed = {
        role: [one for one in statements if SECRET in json.dumps(one["Resource"]) or KEY in json.dumps(one["Resource"])]
        for role, statements in assembly.roles().items()
    }
    ((role, (read, decrypt)),) = [(role, found) for role, found in allowed.items() if found]
    assert "cosmosreason22bWorker" in role
    assert (read["Action"], read["Resource"]) == ("secretsmanager:GetSecretValue", SECRET)
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", KEY)
    assert "kms:ViaService" in json.dumps(decrypt["Condition"])
