"""`cosmos-batch models put` copies a model to S3, for workers that reach nothing else."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from cosmos_batch.cli.main import main
from cosmos_batch.store import ModelStore
from tests.store.conftest import MODEL, files_of
from tests.support.model_hub import Hub

TOKEN = "hf_secretSecretSecret"
WEIGHTS = f"{MODEL}/model.safetensors"


@pytest.fixture(autouse=True)
def deployed(s3_url: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Deploy only the storage stack, in the account of the environment."""
    variables = {"AWS_ENDPOINT_URL": s3_url, "AWS_REGION": "us-east-1"}
    for name, value in {**variables, "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}.items():
        monkeypatch.setenv(name, value)
    cloudformation = boto3.client("cloudformation", region_name="us-east-1")
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"ModelBucketName": {"Value": bucket}},
    }
    cloudformation.create_stack(StackName="CosmosBatch-Storage", TemplateBody=json.dumps(template))
    yield
    cloudformation.delete_stack(StackName="CosmosBatch-Storage")


def put(name: str = MODEL) -> int:
    return main(["models", "put", name])


def refuse() -> str:
    raise AssertionError("asked for the token")


def test_a_worker_without_the_hub_restores_the_model(
    hub: Hub, root: Path, bucket: str, s3: Any, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert put() == 0
    printed = capsys.readouterr()
    assert printed.out == f"{MODEL} is in s3://{bucket}.\n"
    assert "downloaded 100 % of 0.00 GB" in printed.err and "uploaded 100 % of 0.00 GB" in printed.err
    hub.requests = 0
    stored = ModelStore(root, bucket, s3, refuse).ensure(MODEL)
    assert hub.requests == 0
    files = files_of(stored.path)
    assert json.loads(files.pop("manifest.json"))["source"] == "backup"
    assert files == files_of(checkpoint)


def test_only_a_new_commit_is_copied_again(
    hub: Hub, root: Path, bucket: str, s3: Any, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (put(), put()) == (0, 0)
    assert "already, at its newest commit." in capsys.readouterr().out
    assert hub.downloads[WEIGHTS] == 1
    (checkpoint / "config.json").write_text('{"newer": true}')
    commit = hub.add(MODEL, checkpoint)
    assert put() == 0
    assert ModelStore(root, bucket, s3, refuse).ensure(MODEL).commit == commit


@pytest.mark.parametrize("place", ["environment", "login"])
def test_a_model_is_downloaded_with_the_hugging_face_token_of_the_person(
    hub: Hub, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.tokens = {"hf_another"}
    if place == "environment":
        monkeypatch.setenv("HF_TOKEN", TOKEN)
    else:
        (tmp_path / "no-token").write_text(TOKEN)  # where the fixture says that a login is kept
    assert put() == 1
    printed = capsys.readouterr().err
    assert (
        "does not accept the Hugging Face token" in printed and "HF_TOKEN" in printed and "config.json" not in printed
    )
    assert TOKEN not in printed
    hub.tokens = {TOKEN}
    assert put() == 0


def test_a_disk_that_is_too_small_is_refused_before_the_download(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1))
    assert put() == 1
    assert "set TMPDIR" in capsys.readouterr().err
    assert not hub.downloads


@pytest.mark.parametrize("name", ["/models/mine", "cosmos-reason2-2b"])
def test_an_invalid_model_id_is_refused(hub: Hub, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert put(name) == 1
    assert "is not the name of a model" in capsys.readouterr().err
    assert hub.requests == 0


def test_a_bucket_without_write_access_is_reported(
    hub: Hub, bucket: str, s3: Any, keys: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    s3.delete_bucket(Bucket=bucket)
    assert put() == 1
    assert "NoSuchBucket" in capsys.readouterr().err


def test_a_missing_deployment_is_reported(
    hub: Hub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert put() == 1
    assert "'ModelBucketName'" in capsys.readouterr().err
    assert hub.requests == 0


def test_a_revision_can_be_named(hub: Hub, bucket: str, checkpoint: Path, keys: Callable[[], list[str]]) -> None:
    old = hub.repositories[MODEL].main
    (checkpoint / "config.json").write_text('{"new": true}')
    new = hub.add(MODEL, checkpoint)
    assert put(f"{MODEL}@{old}") == 0
    assert any(f"/{old}/manifest.json" in key for key in keys()) and not any(new in key for key in keys())
