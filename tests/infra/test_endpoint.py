"""The worker of a pipeline with a remote model server gets its address, and may read that server's key alone.

A worker that loads its model gets the lossy modes of its engine.
"""

import json
from pathlib import Path

import pytest

from cosmos_batch.contract.environment import WorkerEnvironment
from cosmos_batch.planning.configuration import parse_config
from infra.synth import synthesize
from tests.infra.assembly import Assembly, resolve

ACCOUNT = "123456789012"
SECRET = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:nim-AbCdEf"
KEY = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/12345678-1234-1234-1234-123456789012"
PROMPTS = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:prompts-AbCdEf"
ENDPOINT = {"url": "https://nim.example.com/v1", "apiKeySecretArn": SECRET, "apiKeySecretKeyArn": KEY}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Assembly:
    models = {
        "reason2B": {"enabled": True, "engine": "endpoint", "endpoint": ENDPOINT},
        "reason8B": {"enabled": True, "engine": "vllm", "lossy": ["fp8"]},
    }
    generators = {
        "enabled": True,
        "promptUpsampling": {"url": "https://prompts.example.com/v1", "apiKeySecretArn": PROMPTS},
        "modelsOmni": {"nano16B": {"enabled": True}},
    }
    blocks = {"useNvidiaCosmos": {"enabled": True, "modelsReason": models}, "useNvidiaCosmos3": generators}
    config = parse_config(json.dumps({"app": {"pipelines": blocks}}))
    outdir: Path = tmp_path_factory.mktemp("endpoint") / "cdk.out"
    return Assembly(synthesize(config, outdir))


def environment_of(assembly: Assembly, worker: str) -> WorkerEnvironment:
    definition = assembly.one("Pipelines", "Batch::JobDefinition", worker)
    variables = {
        variable["Name"]: resolve(variable["Value"]) for variable in definition["ContainerProperties"]["Environment"]
    }
    return WorkerEnvironment.read({**variables, "AWS_BATCH_JOB_ID": "a-job"})


def test_the_worker_has_the_address_of_its_server(assembly: Assembly) -> None:
    environment = environment_of(assembly, "cosmosreason22b")
    assert environment.engine == "endpoint" and environment.endpoint is not None
    assert ENDPOINT.items() <= environment.endpoint.model_dump().items()


def test_a_worker_has_the_lossy_modes_of_its_pipeline_alone(assembly: Assembly) -> None:
    assert environment_of(assembly, "cosmosreason28b").lossy == ["fp8"]
    assert environment_of(assembly, "cosmosreason22b").lossy == []


def test_only_the_worker_may_read_the_api_key(assembly: Assembly) -> None:
    allowed = {
        role: [
            statement
            for statement in statements
            if SECRET in json.dumps(statement["Resource"]) or KEY in json.dumps(statement["Resource"])
        ]
        for role, statements in assembly.roles().items()
    }
    ((role, (read, decrypt)),) = [(role, actions) for role, actions in allowed.items() if actions]
    assert "cosmosreason22bWorker" in role
    assert (read["Action"], read["Resource"]) == ("secretsmanager:GetSecretValue", SECRET)
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", KEY)
    assert "kms:ViaService" in json.dumps(decrypt["Condition"])


def test_a_generators_worker_has_the_upsampling_server_and_may_read_its_key(assembly: Assembly) -> None:
    definition = assembly.one("Pipelines", "Batch::JobDefinition", "cosmos3nano")
    variables = {
        variable["Name"]: resolve(variable["Value"]) for variable in definition["ContainerProperties"]["Environment"]
    }
    environment = WorkerEnvironment.read({**variables, "AWS_BATCH_JOB_ID": "a-job"})
    assert environment.upsampler is not None and environment.upsampler.api_key_secret_arn == PROMPTS
    assert environment.serving is not None and environment.serving.upsamples
    readers = [role for role, statements in assembly.roles().items() if PROMPTS in json.dumps(statements)]
    assert len(readers) == 1 and "cosmos3nanoWorker" in readers[0]
