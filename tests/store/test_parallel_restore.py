"""A restore from a slow, busy or faulty S3 gives the same commit or an error (decision 052)."""

import errno
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from boto3.exceptions import RetriesExceededError, S3UploadFailedError
from botocore.config import Config
from botocore.exceptions import ClientError, IncompleteReadError
from s3transfer import exceptions as transfers
from urllib3.exceptions import ProtocolError, SSLError

from cosmos_batch.contract.error import Failure
from cosmos_batch.store import ModelStore, StoredModel, parallel_restore, s3_retries
from cosmos_batch.store.manifest import IncompleteCopyError, ModelFile
from cosmos_batch.store.parallel_restore import BackupLocation, restore_files
from cosmos_batch.worker.clients import Clients
from tests.store.conftest import MODEL, files_of
from tests.store.faulty_s3 import Fault, FaultyS3
from tests.support.model_hub import Hub

WEIGHTS = f"{MODEL}/model.safetensors"
DIRECTORY = "nvidia--Cosmos-Reason2-2B"
PART = 64 * 1024


@pytest.fixture
def faulty(s3_url: str) -> Iterator[FaultyS3]:
    with FaultyS3(s3_url) as faulty:
        yield faulty


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parts small, so that a small checkpoint has many, and pauses short."""
    monkeypatch.setattr(parallel_restore, "PART_BYTES", PART)
    monkeypatch.setattr(s3_retries, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(s3_retries, "LONGEST_PAUSE", 0.05)


def client(faulty: FaultyS3, read_timeout: float = 60) -> Any:
    """Return a client without retries of botocore, so that every fault is seen."""
    return boto3.client(
        "s3",
        endpoint_url=faulty.url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout, max_pool_connections=64),
    )


@pytest.fixture
def backed_up(hub: Hub, store: ModelStore, root: Path, checkpoint: Path) -> StoredModel:
    """Provide a model that only the backup has, while `main` on the Hub is another commit."""
    stored = store.ensure(MODEL)
    store.back_up(stored)
    shutil.rmtree(root)
    (checkpoint / "config.json").write_text('{"newer": true}')
    hub.add(MODEL, checkpoint)
    hub.requests = 0
    return stored


def is_part(path: str) -> bool:
    return path.endswith("/model.safetensors")


def assert_intact(again: StoredModel, backed_up: StoredModel) -> None:
    assert again == backed_up
    assert (again.path / "config.json").read_text() == "{}"
    manifest = json.loads((again.path / "manifest.json").read_bytes())
    for file in manifest["files"]:
        body = (again.path / file["name"]).read_bytes()
        assert (len(body), hashlib.sha256(body).hexdigest()) == (file["size"], file["sha256"])


def test_a_restore_succeeds_with_one_failed_request_in_five(
    hub: Hub, root: Path, bucket: str, faulty: FaultyS3, backed_up: StoredModel
) -> None:
    kinds: list[Fault] = ["busy", "reset", "cut"]
    faulty.choose = lambda number, _method, _path: kinds[number // 5 % 3] if number % 5 == 0 else None
    again = ModelStore(root, bucket, client(faulty), lambda: None).ensure(MODEL)
    assert_intact(again, backed_up)
    assert faulty.faults >= 4 and hub.requests == 0


def test_an_outage_of_s3_of_a_minute_is_waited_for(
    hub: Hub, root: Path, bucket: str, faulty: FaultyS3, backed_up: StoredModel
) -> None:
    """A scaled-down minute: no data comes for as long as several read timeouts."""
    stalls = 0

    def choose(_number: int, _method: str, path: str) -> Fault | None:
        nonlocal stalls
        if faulty.go_on.is_set() or not is_part(path):
            return None
        stalls += 1
        if stalls == 40:  # 16 parts, asked for more than twice
            threading.Timer(0.5, faulty.go_on.set).start()
        return "stall"

    faulty.choose = choose
    again = ModelStore(root, bucket, client(faulty, read_timeout=0.5), lambda: None).ensure(MODEL)
    assert_intact(again, backed_up)
    assert faulty.faults >= 40 and hub.requests == 0


def test_the_default_limits_outlast_a_minute_without_data() -> None:
    """Retries end with the first attempt after RETRY_SECONDS; the worst case began just before the minute."""
    timeout = Clients()._client("s3", Config(region_name="us-east-1")).meta.config.read_timeout
    assert 60 + timeout + s3_retries.LONGEST_PAUSE < s3_retries.RETRY_SECONDS


@pytest.mark.parametrize("fault", ["busy", "reset", "cut", "stall"])
def test_a_lasting_outage_of_s3_is_an_error_and_the_hub_is_not_used(
    hub: Hub,
    root: Path,
    bucket: str,
    faulty: FaultyS3,
    backed_up: StoredModel,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3_retries, "RETRY_SECONDS", 0.3)
    faulty.choose = lambda _number, _method, path: fault if is_part(path) else None
    # Short only where it must pass: what is not spoilt shall be answered on a busy machine too.
    s3 = client(faulty, read_timeout=3 if fault == "stall" else 60)
    store = ModelStore(root, bucket, s3, lambda: None)
    with pytest.raises(Failure, match="could not be restored") as raised:
        store.ensure(MODEL)
    error = raised.value.error
    assert (error.code, error.retryable) == ("ModelUnavailable", True)
    assert bucket in error.message and hub.requests == 0
    assert store.find(MODEL) is None
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock"}
    faulty.choose = lambda _number, _method, _path: None
    monkeypatch.setattr(s3_retries, "RETRY_SECONDS", 300)
    assert_intact(store.ensure(MODEL), backed_up)


def refused(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetObject")


@pytest.mark.parametrize(
    "error",
    [
        refused("AccessDenied", 403),
        refused("InternalError", 500),
        IncompleteReadError(actual_bytes=1, expected_bytes=2),
        RetriesExceededError(ProtocolError("broken")),
        S3UploadFailedError("failed"),
        transfers.RetriesExceededError(OSError("broken")),
        transfers.S3DownloadFailedError("failed"),
        transfers.FatalError("failed"),
        ProtocolError("broken"),
        SSLError("bad record"),
    ],
    ids=lambda error: f"{type(error).__module__}.{type(error).__name__}",
)
def test_every_error_of_the_libraries_is_the_same_failure(
    hub: Hub,
    store: ModelStore,
    s3: Any,
    backed_up: StoredModel,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(**_: Any) -> None:
        raise error

    monkeypatch.setattr(s3_retries, "RETRY_SECONDS", 0.1)
    monkeypatch.setattr(s3, "get_object", fail)
    with pytest.raises(Failure) as raised:
        store.ensure(MODEL)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert raised.value.__cause__ is error and hub.requests == 0


def test_a_request_that_s3_refuses_is_not_repeated(store: ModelStore, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def refuse(**_: Any) -> None:
        nonlocal asked
        asked += 1
        raise refused("AccessDenied", 403)

    monkeypatch.setattr(s3, "get_object", refuse)
    with pytest.raises(ClientError):
        store._backup.manifest(MODEL, "0" * 40)
    assert asked == 1


def test_bytes_damaged_on_the_way_are_fetched_again(
    hub: Hub, root: Path, bucket: str, faulty: FaultyS3, backed_up: StoredModel
) -> None:
    spoilt: list[str] = []

    def choose(_number: int, method: str, path: str) -> Fault | None:
        if is_part(path) and method == "GET" and not spoilt:
            spoilt.append(path)
            return "spoil"
        return None

    faulty.choose = choose
    assert_intact(ModelStore(root, bucket, client(faulty), lambda: None).ensure(MODEL), backed_up)
    assert spoilt and hub.requests == 0


def test_a_backup_damaged_in_s3_is_replaced_by_the_same_commit(
    hub: Hub, store: ModelStore, s3: Any, bucket: str, backed_up: StoredModel
) -> None:
    key = f"models/{DIRECTORY}/{backed_up.commit}/model.safetensors"
    s3.put_object(Bucket=bucket, Key=key, Body=os.urandom(1 << 20))
    again = store.ensure(MODEL)
    assert again.commit == backed_up.commit != hub.repositories[MODEL].main
    assert (again.path / "config.json").read_text() == "{}"
    assert store.back_up(again) is True, "the damaged backup was dropped"


@pytest.mark.parametrize("backup", [True, False])
def test_an_incomplete_copy_is_replaced_by_the_same_commit(
    hub: Hub, store: ModelStore, root: Path, checkpoint: Path, backup: bool
) -> None:
    stored = store.ensure(MODEL)
    if backup:
        store.back_up(stored)
    with (stored.path / "model.safetensors").open("r+b") as weights:
        weights.truncate(1000)
    (checkpoint / "config.json").write_text('{"newer": true}')
    hub.add(MODEL, checkpoint)
    assert store.find(MODEL) is None
    again = store.ensure(MODEL)
    assert again.commit == stored.commit
    assert (again.path / "model.safetensors").stat().st_size == 1 << 20
    assert (again.path / "config.json").read_text() == "{}"
    assert hub.downloads[WEIGHTS] == (1 if backup else 2)
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock", again.commit}


def test_an_incomplete_copy_is_not_backed_up(hub: Hub, store: ModelStore, keys: Callable[[], list[str]]) -> None:
    stored = store.ensure(MODEL)
    (stored.path / "config.json").unlink()
    with pytest.raises(IncompleteCopyError):
        store.back_up(stored)
    assert keys() == []


def test_a_download_with_another_hash_is_refused(hub: Hub, store: ModelStore) -> None:
    repository = hub.repositories[MODEL]
    files = repository.commits[repository.main]

    def spoil(_done: int, _total: int) -> None:
        """Change a file after the Hub has listed it."""
        files["model.safetensors"] = bytes(len(files["model.safetensors"]))

    with pytest.raises(Failure, match="damaged") as raised:
        store.ensure(MODEL, on_progress=spoil)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert store.find(MODEL) is None


def test_a_failing_file_system_is_named_in_the_error(
    hub: Hub, store: ModelStore, backed_up: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Failure, match="Stale file handle") as raised:
        store.ensure(MODEL)
    assert (raised.value.error.code, raised.value.error.retryable) == ("ModelUnavailable", True)
    assert store.find(MODEL) is None and hub.requests == 0


@pytest.fixture
def source(s3: Any, bucket: str, faulty: FaultyS3) -> BackupLocation:
    """Write two files of eight parts each."""
    for name in ("a", "b"):
        s3.put_object(Bucket=bucket, Key=f"x/{name}", Body=name.encode() * (8 * PART))
    return BackupLocation(client(faulty), bucket, "x/")


FILES = [ModelFile(name=name, size=8 * PART) for name in ("a", "b")]


def test_parts_of_several_files_are_fetched_at_once(source: BackupLocation, faulty: FaultyS3, tmp_path: Path) -> None:
    """No part is returned before all are requested."""
    together = threading.Barrier(16)

    def before(_path: str, _range: str) -> None:
        together.wait(120)

    faulty.before = before
    restore_files(source, FILES, tmp_path)
    assert files_of(tmp_path) == {name: name.encode() * (8 * PART) for name in ("a", "b")}
    assert faulty.most_at_once == 16


def test_the_number_of_parts_in_memory_is_limited(
    source: BackupLocation, faulty: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first part of a file is missing, the parts after it wait in memory: five here, and no more."""
    monkeypatch.setattr(parallel_restore, "PARTS_IN_MEMORY", 5)
    asked: list[str] = []
    first = threading.Event()

    def before(_path: str, bytes_asked: str) -> None:
        asked.append(bytes_asked)
        if bytes_asked.startswith("bytes=0-"):
            assert first.wait(120)

    faulty.before = before
    restore = threading.Thread(target=restore_files, args=(source, FILES[:1], tmp_path))
    restore.start()
    while len(asked) < 5:
        first.wait(0.01)
    first.wait(0.5)
    assert len(asked) == 5
    first.set()
    restore.join()
    assert files_of(tmp_path) == {"a": b"a" * (8 * PART)}


def test_a_full_disk_ends_the_restore_at_once(
    source: BackupLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_restore, "PARTS_IN_MEMORY", 2)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        restore_files(source, FILES, tmp_path)


def test_copies_of_commit_0f4e7e0_are_used(
    hub: Hub, store: ModelStore, root: Path, s3: Any, bucket: str, checkpoint: Path
) -> None:
    """The manifests of that commit have hashes of large files only.

    Here such a copy is in the store and in the backup.
    """
    commit = "f" * 40
    weights = (checkpoint / "model.safetensors").read_bytes()
    files = [
        {"name": "config.json", "size": 2, "sha256": None},
        {"name": "model.safetensors", "size": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        {"name": "processor/tokenizer.json", "size": 8, "sha256": None},
    ]
    manifest = {
        "commit": commit,
        "files": files,
        "model": MODEL,
        "publishedAt": "2026-04-10T16:50:29.123456Z",
        "source": "huggingface",
    }
    target = root / DIRECTORY / commit
    shutil.copytree(checkpoint, target)
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2))
    for path in files_of(target):
        s3.upload_file(str(target / path), bucket, f"models/{DIRECTORY}/{commit}/{path}")
    stored = store.ensure(MODEL)
    assert (stored.commit, stored.path) == (commit, target)
    assert store.back_up(stored) is False
    shutil.rmtree(root)
    assert store.ensure(MODEL) == stored
    assert hub.requests == 0


def test_parallel_files_take_a_fraction_of_the_time(
    s3: Any, bucket: str, faulty: FaultyS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection to S3 has a limited rate, so four times as many connections at once take a quarter of the time.

    No part is answered before all are requested, so the restore fails if it fetches fewer of them at once.
    """
    monkeypatch.setattr(parallel_restore, "PART_BYTES", 8 << 20)
    files = [ModelFile(name=f"part-{number}", size=16 << 20) for number in range(4)]
    for file in files:
        s3.put_object(Bucket=bucket, Key=f"x/{file.name}", Body=bytes(file.size))
    of_ours, of_theirs = tmp_path / "ours", tmp_path / "theirs"
    of_ours.mkdir()
    of_theirs.mkdir()
    slow = client(faulty, read_timeout=180)
    all_requested = threading.Barrier(8)

    def wait_for_all(_path: str, _range: str) -> None:
        all_requested.wait(120)

    faulty.before = wait_for_all
    restore_files(BackupLocation(slow, bucket, "x/"), files, of_ours)
    assert faulty.most_at_once == 8
    faulty.before = lambda _path, _range: None
    faulty.most_at_once = 0
    for file in files:
        slow.download_file(bucket, f"x/{file.name}", str(of_theirs / file.name))
    assert faulty.most_at_once <= 2, "one file after another"
