"""The store takes a model from the right place, uses the right copy, and an invalidation drops what it names."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.store import ModelStore
from tests.store.conftest import MODEL, OTHER, files_of
from tests.support.model_hub import Hub

WEIGHTS = f"{MODEL}/model.safetensors"
DIRECTORY = "nvidia--Cosmos-Reason2-2B"
Keys = Callable[[], list[str]]


def now() -> datetime:
    return datetime.now(UTC)


def test_a_download_is_complete_and_has_a_manifest(hub: Hub, store: ModelStore, root: Path, checkpoint: Path) -> None:
    before = now()
    stored = store.ensure(MODEL)
    assert stored.path == root / DIRECTORY / stored.commit
    assert before < stored.published_at < now()
    files = files_of(stored.path)
    manifest = json.loads(files.pop("manifest.json"))
    assert files == files_of(checkpoint)
    assert manifest["model"] == MODEL and manifest["commit"] == stored.commit and manifest["source"] == "huggingface"
    sizes = {file["name"]: file["size"] for file in manifest["files"]}
    assert sizes == {name: len(body) for name, body in files.items()}
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock", stored.commit}


def test_a_published_copy_needs_no_network_and_no_token(hub: Hub, store: ModelStore, root: Path, bucket: str) -> None:
    stored = store.ensure(MODEL)
    hub.requests = 0

    def refuse() -> str:
        raise AssertionError("asked for the token")

    without_network = ModelStore(root, bucket, None, refuse)
    assert without_network.ensure(MODEL) == stored
    assert without_network.ensure(MODEL, newer_than=stored.published_at - timedelta(seconds=1)) == stored
    assert without_network.find(MODEL) == stored
    assert without_network.find(OTHER) is None
    assert hub.requests == 0


def test_progress_ends_with_all_bytes(hub: Hub, store: ModelStore, checkpoint: Path) -> None:
    hub.chunk_delay = 0.02
    seen: list[tuple[int, int]] = []
    store.ensure(MODEL, on_progress=lambda done, total: seen.append((done, total)))
    size = sum(map(len, files_of(checkpoint).values()))
    assert seen[0] == (0, size) and seen[-1] == (size, size)
    assert seen == sorted(seen)
    assert any(0 < done < size for done, _ in seen)


def test_a_download_is_of_one_commit_even_if_main_moves(hub: Hub, store: ModelStore, checkpoint: Path) -> None:
    before = files_of(checkpoint)
    commit = hub.repositories[MODEL].main

    def move_on(done: int, total: int) -> None:
        (checkpoint / "config.json").write_text("[]")
        hub.add(MODEL, checkpoint)

    stored = store.ensure(MODEL, on_progress=move_on)
    files = files_of(stored.path)
    del files["manifest.json"]
    assert (stored.commit, files) == (commit, before)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{"), lambda path: path.write_bytes(b"")])
def test_a_directory_without_a_good_manifest_is_not_a_model(
    hub: Hub, store: ModelStore, spoil: Callable[[Path], object]
) -> None:
    stored = store.ensure(MODEL)
    spoil(stored.path / "manifest.json")
    assert store.find(MODEL) is None
    again = store.ensure(MODEL)
    assert again.path == stored.path and again.published_at > stored.published_at


def test_leftovers_of_killed_workers_are_removed(
    hub: Hub, store: ModelStore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (".partial-dead", ".withdrawn-dead"):
        (root / DIRECTORY / name).mkdir(parents=True)
        (root / DIRECTORY / name / "manifest.json").write_text("{}")
    assert store.find(MODEL) is None
    assert not caplog.messages
    beside: list[int] = []
    stored = store.ensure(MODEL, on_progress=lambda *_: beside.append(len(list((root / DIRECTORY).glob(".[pw]*")))))
    assert beside[0] == 1, "the dead are gone before the download begins"
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock", stored.commit}


def test_a_backup_fills_an_empty_file_system_without_the_hub(
    hub: Hub, store: ModelStore, root: Path, keys: Keys
) -> None:
    stored = store.ensure(MODEL)
    assert store.back_up(stored) is True
    assert store.back_up(stored) is False
    prefix = f"models/{DIRECTORY}/{stored.commit}"
    assert f"{prefix}/processor/tokenizer.json" in keys() and f"{prefix}/manifest.json" in keys()
    before = files_of(stored.path)
    shutil.rmtree(root)
    hub.status = 503
    restored = store.ensure(MODEL)
    assert restored == stored, "a restored copy is as old as its backup"
    after = files_of(restored.path)
    assert json.loads(after.pop("manifest.json"))["source"] == "backup"
    del before["manifest.json"]
    assert after == before


def test_an_incomplete_backup_is_not_used(hub: Hub, store: ModelStore, root: Path, s3: Any, bucket: str) -> None:
    stored = store.ensure(MODEL)
    store.back_up(stored)
    s3.delete_object(Bucket=bucket, Key=f"models/{DIRECTORY}/{stored.commit}/manifest.json")
    shutil.rmtree(root)
    again = store.ensure(MODEL)
    assert hub.downloads[WEIGHTS] == 2
    assert store.back_up(again) is True


def test_the_manifest_is_uploaded_last(hub: Hub, store: ModelStore, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    uploaded: list[str] = []
    monkeypatch.setattr(s3, "upload_file", lambda source, bucket, key, **_: uploaded.append(key))
    monkeypatch.setattr(s3, "put_object", lambda **put: uploaded.append(put["Key"]))
    assert store.back_up(store.ensure(MODEL))
    assert len(uploaded) == 4 and uploaded[-1].endswith("/manifest.json")


@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_a_damaged_backup_is_replaced(
    hub: Hub, store: ModelStore, root: Path, s3: Any, bucket: str, damage: str
) -> None:
    stored = store.ensure(MODEL)
    store.back_up(stored)
    key = f"models/{DIRECTORY}/{stored.commit}/model.safetensors"
    if damage == "gone":
        s3.delete_object(Bucket=bucket, Key=key)
    else:
        s3.put_object(Bucket=bucket, Key=key, Body=b"short")
    shutil.rmtree(root)
    again = store.ensure(MODEL)
    assert hub.downloads[WEIGHTS] == 2
    assert store.back_up(again) is True


def test_an_unreadable_backup_is_an_error_and_the_hub_is_not_used(hub: Hub, root: Path, s3: Any) -> None:
    store = ModelStore(root, "no-such-bucket", s3, lambda: None)
    with pytest.raises(Failure, match="no-such-bucket") as caught:
        store.ensure(MODEL)
    assert (caught.value.error.code, caught.value.error.retryable) == ("ModelUnavailable", True)
    assert hub.requests == 0


def test_invalidation_drops_both_copies_of_that_model_and_no_other(
    hub: Hub, store: ModelStore, root: Path, checkpoint: Path, keys: Keys
) -> None:
    old, other = store.ensure(MODEL), store.ensure(OTHER)
    store.back_up(old)
    store.back_up(other)
    others_keys = [key for key in keys() if "8B" in key]
    (checkpoint / "config.json").write_text('{"new": true}')
    hub.add(MODEL, checkpoint)
    hub.add(OTHER, checkpoint)
    new = store.ensure(MODEL, newer_than=now())
    assert new.commit != old.commit
    assert (new.path / "config.json").read_text() == '{"new": true}'
    assert store.find(MODEL) == new
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock", new.commit}
    assert store.find(OTHER) == other
    assert keys() == others_keys


def test_invalidation_of_a_commit_drops_it_and_the_replaced_commit_alone(
    hub: Hub, store: ModelStore, root: Path, checkpoint: Path, keys: Keys
) -> None:
    commits = []
    for version in range(4):
        (checkpoint / "config.json").write_text(str(version))
        commits.append(hub.add(MODEL, checkpoint))
        store.back_up(store.ensure(MODEL, commit=commits[-1]))
    replaced, kept, also_kept, loaded = commits
    moment = now()
    new = store.ensure(MODEL, newer_than=moment, commit=loaded, replaces=replaced)
    assert new.commit == loaded and new.published_at > moment
    assert {path.name for path in (root / DIRECTORY).iterdir()} == {".lock", kept, also_kept, loaded}
    assert {key.split("/")[2] for key in keys()} == {kept, also_kept}


def test_invalidation_of_the_same_commit_leaves_a_reader_undisturbed(hub: Hub, store: ModelStore) -> None:
    old = store.ensure(MODEL)
    with (old.path / "model.safetensors").open("rb") as reader:
        new = store.ensure(MODEL, newer_than=now())
        assert len(reader.read()) == 1 << 20
    assert new.path == old.path and new.published_at > old.published_at
    assert hub.downloads[WEIGHTS] == 2


def test_a_repeated_invalidation_downloads_once(hub: Hub, store: ModelStore) -> None:
    store.ensure(MODEL)
    started = [now() for _ in range(200)]
    copies = {store.ensure(MODEL, newer_than=moment) for moment in started}
    assert len(copies) == 1
    assert hub.downloads[WEIGHTS] == 2


def test_an_old_backup_is_dropped_with_an_empty_file_system(
    hub: Hub, store: ModelStore, root: Path, keys: Keys
) -> None:
    store.back_up(store.ensure(MODEL))
    shutil.rmtree(root)
    store.ensure(MODEL, newer_than=now())
    assert hub.downloads[WEIGHTS] == 2
    assert keys() == []


def test_a_backup_that_is_newer_than_the_request_is_used(hub: Hub, store: ModelStore, root: Path) -> None:
    started = now()
    stored = store.ensure(MODEL)
    store.back_up(stored)
    shutil.rmtree(root)
    assert store.ensure(MODEL, newer_than=started) == stored
    assert hub.downloads[WEIGHTS] == 1


def test_an_invalidated_copy_is_not_used_even_if_the_download_fails(hub: Hub, store: ModelStore, keys: Keys) -> None:
    store.back_up(store.ensure(MODEL))
    hub.status = 503
    with pytest.raises(Failure):
        store.ensure(MODEL, newer_than=now())
    assert store.find(MODEL) is None
    assert keys() == []
    with pytest.raises(Failure):
        store.ensure(MODEL)
    hub.status = None
    assert store.ensure(MODEL).model == MODEL


def test_a_backup_that_cannot_be_dropped_stops_the_invalidation(
    hub: Hub, store: ModelStore, root: Path, s3: Any
) -> None:
    old = store.ensure(MODEL)
    store = ModelStore(root, "no-such-bucket", s3, lambda: None)
    with pytest.raises(Failure) as caught:
        store.ensure(MODEL, newer_than=now())
    assert caught.value.error.retryable
    assert store.find(MODEL) == old


def test_a_copy_that_was_invalidated_is_not_backed_up(
    hub: Hub, store: ModelStore, checkpoint: Path, keys: Keys
) -> None:
    old = store.ensure(MODEL)
    (checkpoint / "config.json").write_text("[]")
    hub.add(MODEL, checkpoint)
    store.ensure(MODEL, newer_than=now())
    assert store.back_up(old) is False
    assert keys() == []
