"""Concurrent workers download a model once, and a killed worker leaves no incomplete copy."""

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.store import ModelStore
from cosmos_batch.store.lock import exclusive
from tests.store.conftest import MODEL, files_of
from tests.store.faulty_s3 import Fault, FaultyS3
from tests.support.model_hub import Hub

WEIGHTS = f"{MODEL}/model.safetensors"
REPOSITORY = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(hub: Hub, root: Path, bucket: str, s3_url: str, tmp_path: Path) -> Start:
    """Start a process that ensures MODEL, through the S3 server `s3` if it is given."""

    def start_filler(*orders: str, s3: str = s3_url) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "tests.store.filler", str(root), bucket, s3, MODEL, *orders],
            cwd=REPOSITORY,
            env=os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start_filler


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_workers_that_start_together_download_once(hub: Hub, start: Start, store: ModelStore) -> None:
    hub.chunk_delay = 0.02
    workers = [start(), start()]
    answers = [worker.communicate(timeout=120) for worker in workers]
    stored = store.find(MODEL)
    assert stored
    assert [out.strip() for out, _ in answers] == [stored.commit] * 2
    assert hub.downloads[WEIGHTS] == 1
    assert sum("another worker holds the lock of" in log for _, log in answers) == 1


def test_a_worker_killed_during_a_download_leaves_no_copy(
    hub: Hub, start: Start, store: ModelStore, root: Path, checkpoint: Path
) -> None:
    hub.chunk_delay = 0.2
    worker = start()
    wait_until(lambda: hub.downloads[WEIGHTS] and list(root.glob("*/.partial-*/config.json")))
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    assert list(root.glob("*/.partial-*"))
    assert store.find(MODEL) is None

    hub.chunk_delay = 0
    stored = store.ensure(MODEL)
    files = files_of(stored.path)
    del files["manifest.json"]
    assert files == files_of(checkpoint)
    assert {path.name for path in stored.path.parent.iterdir()} == {".lock", stored.commit}


def test_a_worker_killed_with_the_lock_does_not_block_others(hub: Hub, start: Start, store: ModelStore) -> None:
    hub.chunk_delay = 0.2
    first = start()
    wait_until(lambda: hub.downloads[WEIGHTS])
    second = start()
    time.sleep(1)
    assert second.poll() is None, "it waits"
    hub.chunk_delay = 0
    first.kill()
    first.communicate()
    commit, _ = second.communicate(timeout=120)
    stored = store.find(MODEL)
    assert stored and stored.commit == commit.strip()


def kill(worker: "subprocess.Popen[str]") -> None:
    worker.send_signal(signal.SIGKILL)
    worker.communicate()


def test_a_worker_killed_during_a_restore_leaves_no_copy(
    hub: Hub, start: Start, store: ModelStore, root: Path, s3_url: str, checkpoint: Path
) -> None:
    stored = store.ensure(MODEL)
    store.back_up(stored)
    shutil.rmtree(root)
    with FaultyS3(s3_url) as faulty:
        faulty.choose = lambda _number, _method, path: "stall" if path.endswith("/model.safetensors") else None
        first = start(s3=faulty.url)
        wait_until(faulty.stalled.is_set)
        second = start()
        kill(first)
        assert store.find(MODEL) is None or second.poll() is not None
        commit, log = second.communicate(timeout=120)
    assert commit.strip() == stored.commit, log
    again = store.find(MODEL)
    assert again == stored and hub.downloads[WEIGHTS] == 1
    files = files_of(again.path)
    del files["manifest.json"]
    assert files == files_of(checkpoint)
    assert {path.name for path in again.path.parent.iterdir()} == {".lock", again.commit}


def test_a_worker_killed_before_it_publishes_leaves_no_copy(
    hub: Hub, start: Start, store: ModelStore, root: Path
) -> None:
    worker = start("die")
    _, log = worker.communicate(timeout=120)
    assert worker.returncode == -signal.SIGKILL, log
    assert list(root.glob("*/.partial-*/manifest.json")), "all was there but its name"
    assert store.find(MODEL) is None
    stored = store.ensure(MODEL)
    assert {path.name for path in stored.path.parent.iterdir()} == {".lock", stored.commit}


def test_a_worker_killed_during_a_backup_leaves_none_and_the_next_worker_makes_it(
    hub: Hub, start: Start, store: ModelStore, root: Path, s3_url: str, keys: Callable[[], list[str]]
) -> None:
    with FaultyS3(s3_url) as faulty:
        uploads: list[str] = []

        def choose(_number: int, method: str, path: str) -> Fault | None:
            if method == "PUT":
                uploads.append(path)
            return "stall" if len(uploads) == 2 else None

        faulty.choose = choose
        worker = start("backup", s3=faulty.url)
        wait_until(faulty.stalled.is_set)
        kill(worker)
    assert keys() and not any(key.endswith("/manifest.json") for key in keys()), "half of it is there"
    stored = store.find(MODEL)
    assert stored
    shutil.rmtree(root)
    again = store.ensure(MODEL)
    assert hub.downloads[WEIGHTS] == 2, "half a backup is none"
    assert store.back_up(again) is True
    shutil.rmtree(root)
    assert store.ensure(MODEL).commit == stored.commit
    assert hub.downloads[WEIGHTS] == 2


def test_hosts_that_start_together_restore_once(
    hub: Hub, start: Start, store: ModelStore, root: Path, s3_url: str
) -> None:
    stored = store.ensure(MODEL)
    store.back_up(stored)
    shutil.rmtree(root)
    with FaultyS3(s3_url) as faulty:
        hosts = [start(s3=faulty.url) for _ in range(3)]
        outputs = [host.communicate(timeout=120) for host in hosts]
        ranges = [path for method, path, asked in faulty.requests if method == "GET" and asked]
    assert [out.strip() for out, _ in outputs] == [stored.commit] * 3
    assert len(ranges) == 3 and len(set(ranges)) == 3, "each file was fetched once"


def test_the_lock_excludes_threads_of_one_process_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inside = 0
    most = 0

    def enter() -> None:
        nonlocal inside, most
        with exclusive(tmp_path / ".lock"):
            inside += 1
            most = max(most, inside)
            time.sleep(0.1)
            inside -= 1

    threads = [threading.Thread(target=enter) for _ in range(3)]
    with caplog.at_level(logging.INFO):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == 1
    assert "waiting" in caplog.text


def test_an_invalidation_waits_for_a_backup_under_way(
    hub: Hub, store: ModelStore, s3: Any, keys: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = store.ensure(MODEL)
    under_way, go_on = threading.Event(), threading.Event()
    upload = s3.upload_file

    def slow_upload(*args: Any, **options: Any) -> None:
        under_way.set()
        assert go_on.wait(120)
        upload(*args, **options)

    monkeypatch.setattr(s3, "upload_file", slow_upload)
    backup = threading.Thread(target=store.back_up, args=(stored,))
    backup.start()
    assert under_way.wait(120)
    threading.Timer(0.7, go_on.set).start()
    new = store.ensure(MODEL, newer_than=datetime.now(UTC))
    backup.join()
    assert new.published_at > stored.published_at
    assert keys() == [], "the backup of the old copy is gone"
