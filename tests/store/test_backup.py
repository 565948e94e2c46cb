"""Uploads to the backup and deletions from it outlast faults of S3 that pass, and refusals are not repeated."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

from cosmos_batch.store import ModelStore, s3_retries
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.manifest import ModelManifest
from tests.store.conftest import MODEL
from tests.store.faulty_s3 import Fault, FaultyS3
from tests.support.model_hub import Hub


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_retries, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(s3_retries, "LONGEST_PAUSE", 0.05)


@pytest.fixture
def faulty(s3_url: str) -> Iterator[FaultyS3]:
    with FaultyS3(s3_url) as faulty:
        yield faulty


@pytest.fixture
def backup(faulty: FaultyS3, bucket: str) -> Backup:
    """Provide a backup whose client does not repeat a request itself."""
    client = boto3.client(
        "s3",
        endpoint_url=faulty.url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}),
    )
    return Backup(bucket, client)


@pytest.fixture
def copy(hub: Hub, store: ModelStore) -> tuple[Path, ModelManifest]:
    """Provide a published model and its manifest."""
    stored = store.ensure(MODEL)
    return stored.path, ModelManifest.read((stored.path / "manifest.json").read_bytes(), MODEL, stored.commit)


def fail_each_once(faulty: FaultyS3, fault: Fault) -> set[tuple[str, str]]:
    """Make the first request of each method to each address fail, and return a set of these requests."""
    failed: set[tuple[str, str]] = set()

    def choose(_number: int, method: str, path: str) -> Fault | None:
        if (method, path) in failed:
            return None
        failed.add((method, path))
        return fault

    faulty.choose = choose
    return failed


@pytest.mark.parametrize("fault", ["busy", "reset"])
def test_an_upload_succeeds_though_each_request_fails_once(
    backup: Backup, faulty: FaultyS3, copy: tuple[Path, ModelManifest], fault: Fault
) -> None:
    folder, manifest = copy
    seen: list[tuple[int, int]] = []
    failed = fail_each_once(faulty, fault)
    backup.upload(folder, manifest, lambda done, total: seen.append((done, total)))
    assert {method for method, _ in failed} == {"PUT"} and len(failed) == len(manifest.files) + 1
    assert seen[-1] == (manifest.size, manifest.size)
    assert max(done for done, _ in seen) == manifest.size, "what a failed try has sent does not count"
    assert backup.manifest(MODEL, manifest.commit) == manifest


@pytest.mark.parametrize("fault", ["busy", "reset"])
def test_a_backup_is_dropped_though_each_request_fails_once(
    backup: Backup, faulty: FaultyS3, copy: tuple[Path, ModelManifest], keys: Callable[[], list[str]], fault: Fault
) -> None:
    folder, manifest = copy
    backup.upload(folder, manifest)
    failed = fail_each_once(faulty, fault)
    backup.drop(MODEL, manifest.commit)
    assert {method for method, _ in failed} == {"DELETE", "GET", "POST"}
    assert keys() == []


def test_a_file_that_s3_does_not_delete_is_told(
    backup: Backup, copy: tuple[Path, ModelManifest], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, manifest = copy
    backup.upload(folder, manifest)
    refused = {"Errors": [{"Key": "weights", "Code": "AccessDenied", "Message": "Object Lock holds it."}]}
    monkeypatch.setattr(backup, "_s3", Mock(wraps=backup._s3, delete_objects=Mock(return_value=refused)))
    with pytest.raises(ClientError, match="Object Lock"):
        backup.drop(MODEL, manifest.commit)


def test_a_request_that_fails_after_more_time_than_retries_get_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    now, starts = 0.0, 0

    def upload() -> str:
        nonlocal now, starts
        starts += 1
        now += s3_retries.RETRY_SECONDS + 1
        if starts == 1:
            raise ConnectionClosedError(endpoint_url="https://s3")
        return "done"

    monkeypatch.setattr(s3_retries, "time", SimpleNamespace(monotonic=lambda: now, sleep=lambda _seconds: None))
    assert s3_retries.RetryBudget().call(upload) == "done"


def test_an_upload_that_s3_refuses_is_not_repeated(
    faulty: FaultyS3, backup: Backup, copy: tuple[Path, ModelManifest], s3: Any, bucket: str
) -> None:
    s3.delete_bucket(Bucket=bucket)
    with pytest.raises(s3_retries.FAULTS, match="NoSuchBucket"):
        backup.upload(*copy)
    assert len(faulty.requests) == 1
    with pytest.raises(ClientError, match="NoSuchBucket"):
        backup.drop(MODEL, copy[1].commit)
    assert len(faulty.requests) == 2
