"""The Hugging Face token reaches its secret, and appears nowhere else."""

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from cosmos_batch.cli import deployment
from cosmos_batch.planning.configuration import load_config
from infra.synth import synthesize
from scripts import put_secret
from tests.infra.assembly import TOKEN, Assembly

STACK = "CosmosBatch-Storage"


def commands(assembly: Assembly) -> list[list[str]]:
    """Return the commands that build assets."""
    files = assembly.assets("Pipelines")["files"].values()
    return [file["source"]["executable"] for file in files if "executable" in file["source"]]


def test_the_token_is_nowhere_in_the_assembly(assembly: Assembly) -> None:
    files = [path for path in assembly.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_the_secret_is_made_without_a_value(assembly: Assembly) -> None:
    secret = assembly.one("Storage", "SecretsManager::Secret")
    assert secret.keys() == {"Description", "Tags"}


def test_deployment_puts_it_there_after_the_storage_stack(assembly: Assembly, config_file: Path) -> None:
    ((python, script, config, stack),) = commands(assembly)
    assert Path(python).exists()
    assert Path(script) == Path(put_secret.__file__)
    assert (Path(config), stack) == (config_file, STACK)
    manifest = json.loads((assembly.folder / "manifest.json").read_text(encoding="utf-8"))
    assert STACK in manifest["artifacts"]["CosmosBatch-Pipelines"]["dependencies"]


def test_a_configuration_without_a_token_runs_no_command_at_deployment(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("{}", encoding="utf-8")
    assert commands(Assembly(synthesize(load_config(file), tmp_path / "cdk.out", file))) == []


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Provide the ARN of a secret without a value, which a deployed storage stack has as an output."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        arn = boto3.client("secretsmanager").create_secret(Name="token")["ARN"]
        template = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {put_secret.OUTPUT: {"Value": arn}},
        }
        boto3.client("cloudformation").create_stack(StackName=STACK, TemplateBody=json.dumps(template))
        yield arn


def test_the_command_writes_the_token_and_prints_an_empty_archive(
    secret: str, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_secret.main(str(config_file), STACK)
    printed = capsys.readouterr()
    assert boto3.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"] == TOKEN
    assert Path(printed.out.strip()).suffix == ".zip" and Path(printed.out.strip()).exists()
    assert TOKEN not in printed.out + printed.err


def test_the_command_and_the_cli_look_where_cdk_deploys_to(
    secret: str, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")  # CDK asks for the other one first, and boto3 only for this
    put_secret.main(str(config_file), STACK)
    client = deployment.environment_clients()("secretsmanager")
    assert client.get_secret_value(SecretId=secret)["SecretString"] == TOKEN


def test_a_second_deployment_with_the_same_token_makes_no_new_version(secret: str, config_file: Path) -> None:
    put_secret.main(str(config_file), STACK)
    client = boto3.client("secretsmanager")
    first = client.get_secret_value(SecretId=secret)["VersionId"]
    put_secret.main(str(config_file), STACK)
    assert client.get_secret_value(SecretId=secret)["VersionId"] == first


def test_the_storage_stack_has_the_output_that_the_command_reads(assembly: Assembly) -> None:
    assert put_secret.OUTPUT in assembly.templates["Storage"]["Outputs"]


def test_an_existing_secret_is_read_and_none_is_made(tmp_path: Path) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:theirs-AbCdEf"
    file = tmp_path / "config.json"
    key = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0000-4000-8000-000000000000"
    theirs = {"huggingFaceTokenSecretArn": arn, "huggingFaceTokenSecretKeyArn": key}
    cosmos = {"enabled": True, **theirs, "modelsReason": {"reason2B": {"enabled": True}}}
    file.write_text(json.dumps({"app": {"pipelines": {"useNvidiaCosmos": cosmos}}}), encoding="utf-8")
    assembly = Assembly(synthesize(load_config(file), tmp_path / "cdk.out", file))
    assert not [stack for stack in assembly.templates if assembly.resources(stack, "SecretsManager::Secret")]
    assert commands(assembly) == []
    read, decrypt = [
        statement for statement in assembly.statements("WorkerRole") if "secretsmanager" in json.dumps(statement)
    ]
    assert (read["Action"], read["Resource"]) == ("secretsmanager:GetSecretValue", arn)
    assert (decrypt["Action"], decrypt["Resource"]) == ("kms:Decrypt", key)
