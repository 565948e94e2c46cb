"""Fixtures: a small Hugging Face Hub, an S3 server, and a small checkpoint."""

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from cosmos_batch.store import ModelStore
from tests.support.model_hub import Hub

MODEL = "nvidia/Cosmos-Reason2-2B"
OTHER = "nvidia/Cosmos-Reason2-8B"


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_url: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=s3_url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def bucket(s3: Any) -> str:
    name = f"models-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name)
    return name


@pytest.fixture
def keys(s3: Any, bucket: str) -> Callable[[], list[str]]:
    """Return a function that lists the keys of the bucket."""
    return lambda: [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    (folder / "processor").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "processor/tokenizer.json").write_text('{"a": 1}')
    (folder / "model.safetensors").write_bytes(os.urandom(1 << 20))
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, checkpoint: Path) -> Iterator[Hub]:
    """Provide a hub with two models, which `huggingface_hub` uses in this process."""
    with Hub() as hub:
        hub.add(MODEL, checkpoint)
        hub.add(OTHER, checkpoint)
        hub.direct_this_process(monkeypatch, tmp_path)
        yield hub


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "efs"


@pytest.fixture
def store(root: Path, bucket: str, s3: Any) -> ModelStore:
    return ModelStore(root, bucket, s3, lambda: None)


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the contents of files by their relative names."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }
