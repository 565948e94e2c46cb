"""All workers of a pipeline load the recorded commit of a model (decision 065)."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.state import Revisions
from cosmos_batch.store import ModelStore
from cosmos_batch.store.backup import Backup
from cosmos_batch.store.copies import Copies
from cosmos_batch.worker.model_copies import PinnedModelStore
from tests.support.model_hub import Hub
from tests.worker.conftest import WorkerFixture

MODEL, BUCKET = "nvidia/Cosmos-Reason2-2B", "model-bucket"


class Place:
    """A Hub with one model, and hosts of one pipeline with a disk each."""

    def __init__(self, hub: Hub, bench: WorkerFixture) -> None:
        self.hub = hub
        self.revisions = Revisions(bench.table, "cosmos-reason2-2b")
        self.revisions_of_another = Revisions(bench.table, "cosmos3-nano")
        self._folder = bench.folder
        boto3.client("s3").create_bucket(Bucket=BUCKET)

    def publish(self, content: str) -> str:
        folder = self._folder / "published"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"version": content}))
        return self.hub.add(MODEL, folder)

    def host(self, name: str, revision: str = "main", another_pipeline: bool = False) -> PinnedModelStore:
        root = self._folder / name
        root.mkdir(exist_ok=True)
        store = ModelStore(root, BUCKET, boto3.client("s3"), lambda: None)
        revisions = self.revisions_of_another if another_pipeline else self.revisions
        return PinnedModelStore(store, revisions, {MODEL: revision})


@pytest.fixture
def place(bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with Hub() as hub:
        hub.direct_this_process(monkeypatch, bench.folder)
        yield Place(hub, bench)


def test_a_host_that_starts_later_loads_the_same_commit(place: Place) -> None:
    first = place.publish("1")
    assert place.host("a").ensure(MODEL).commit == first
    place.publish("2")
    assert place.host("b").ensure(MODEL).commit == first


def test_the_commit_of_a_filled_store_is_recorded_without_the_hub(place: Place) -> None:
    """Workers of an older version have filled the store without recording a commit."""
    host = place.host("a")
    old = host.store.ensure(MODEL, commit=place.publish("1")).commit
    place.publish("2")
    place.hub.status = 503
    assert host.ensure(MODEL).commit == old
    recorded = place.revisions.get(MODEL, "main")
    assert recorded is not None and recorded.commit == old


def test_the_commit_of_a_backup_is_recorded_where_the_store_is_empty(place: Place) -> None:
    first = place.host("a")
    assert first.store.back_up(first.store.ensure(MODEL, commit=place.publish("1")))
    place.publish("2")
    place.hub.status = 503
    assert place.host("b").ensure(MODEL).path.is_dir()


def test_a_commit_that_is_configured_is_loaded_whatever_is_recorded(place: Place) -> None:
    old, new = place.publish("1"), place.publish("2")
    place.revisions.record(MODEL, "main", new)
    for _ in range(2):
        assert place.host("a", revision=old).ensure(MODEL).commit == old
    assert {(row.revision, row.commit) for row in place.revisions.list()} == {("main", new), (old, old)}


def test_a_newer_copy_in_the_store_does_not_replace_the_recorded_commit(place: Place) -> None:
    """Another pipeline with the same model has loaded a newer commit into the same file system."""
    old, new = place.publish("1"), place.publish("2")
    store = place.host("shared").store
    assert store.ensure(MODEL, commit=new).commit == new
    assert place.host("shared", revision=old).ensure(MODEL).commit == old


def test_an_invalidation_records_a_new_commit_once_for_all_hosts(place: Place) -> None:
    place.publish("1")
    host, other = place.host("a"), place.host("b")
    host.ensure(MODEL)
    new = place.publish("2")
    requested_at = datetime.now(UTC)
    time.sleep(0.01)  # a record has milliseconds
    assert host.ensure(MODEL, requested_at).commit == new
    place.publish("3")
    assert other.ensure(MODEL, requested_at).commit == new, "it has moved since that was asked"
    assert place.host("c").ensure(MODEL).commit == new


def test_an_invalidation_drops_the_replaced_commit_on_every_host(place: Place) -> None:
    old = place.publish("1")
    hosts = [place.host("a"), place.host("b")]
    for host in hosts:
        assert host.back_up(host.ensure(MODEL)) is (host is hosts[0])
    place.publish("2")
    requested_at = after_what_is_recorded()
    for host in hosts:
        host.ensure(MODEL, requested_at)
        assert not Copies(host.store._root, MODEL).manifest(old)
    assert not backed_up(old)


@pytest.mark.parametrize("same_commit", [True, False])
def test_an_invalidation_leaves_the_copies_of_another_pipeline_with_the_model(place: Place, same_commit: bool) -> None:
    """They share the file system and the backup. The commit may no longer be on the Hub, so it must not be dropped."""
    first = place.publish("1")
    ours, other = place.host("shared"), place.host("shared", another_pipeline=True)
    for host in (ours, other) if same_commit else (other,):
        host.back_up(host.ensure(MODEL))
    if not same_commit:
        place.revisions.record(MODEL, "main", place.publish("2"))
        ours.back_up(ours.ensure(MODEL))
    replaced = ours.ensure(MODEL).commit
    new = place.publish("3")
    assert ours.ensure(MODEL, after_what_is_recorded()).commit == new
    del place.hub.repositories[MODEL].commits[first]
    place.hub.status = 503
    assert other.ensure(MODEL).commit == first
    assert place.host("empty", another_pipeline=True).ensure(MODEL).commit == first, "its backup is there too"
    assert backed_up(replaced) is same_commit


def test_an_invalidation_leaves_a_commit_that_another_pipeline_pins(place: Place) -> None:
    """The pinned commit may no longer be on the Hub, so it must not be dropped with what this pipeline had loaded."""
    pinned = place.publish("1")
    ours, other = place.host("shared"), place.host("shared", revision=pinned, another_pipeline=True)
    for host in (ours, other):
        host.back_up(host.ensure(MODEL))
    new = place.publish("2")
    assert ours.ensure(MODEL, after_what_is_recorded()).commit == new
    del place.hub.repositories[MODEL].commits[pinned]
    place.hub.status = 503
    assert other.ensure(MODEL).commit == pinned
    empty = place.host("empty", revision=pinned, another_pipeline=True)
    assert empty.ensure(MODEL).commit == pinned, "its backup is there too"


def after_what_is_recorded() -> datetime:
    """Return a time after everything that was recorded until now and before all that is recorded later."""
    time.sleep(0.01)  # a record has milliseconds
    moment = datetime.now(UTC)
    time.sleep(0.01)
    return moment


def backed_up(commit: str) -> bool:
    return Backup(BUCKET, boto3.client("s3")).manifest(MODEL, commit) is not None


@pytest.mark.parametrize("pinned", [False, True])
def test_an_invalidation_without_the_hub_drops_no_copy(place: Place, pinned: bool) -> None:
    old = place.publish("1")
    host = place.host("a", revision=old if pinned else "main")
    host.ensure(MODEL)
    place.hub.status = 503
    with pytest.raises(Failure) as raised:
        host.ensure(MODEL, datetime.now(UTC))
    assert raised.value.error.retryable
    assert host.ensure(MODEL).commit == old


def test_a_second_invalidation_before_the_download_of_the_first_leaves_no_old_copy(place: Place) -> None:
    old = place.publish("1")
    host = place.host("a")
    host.back_up(host.ensure(MODEL))
    place.publish("2")
    requested_at = after_what_is_recorded()
    host.resolve(MODEL, requested_at)
    host.resolve(MODEL, after_what_is_recorded())
    host.ensure(MODEL, requested_at)
    assert not Copies(host.store._root, MODEL).manifest(old)
    assert not backed_up(old)


def test_an_invalidation_of_a_model_whose_files_are_refused_drops_no_copy(place: Place) -> None:
    """The Hub lists a gated model to everyone, so its commit can be resolved without a right to its files."""
    old = place.publish("1")
    host = place.host("a")
    host.ensure(MODEL)
    place.publish("2")
    place.hub.gated.add(MODEL)
    with pytest.raises(Failure, match="gated"):
        host.ensure(MODEL, datetime.now(UTC))
    assert host.ensure(MODEL).commit == old


def test_a_tag_is_resolved_once(place: Place) -> None:
    first = place.publish("1")
    place.hub.repositories[MODEL].tags["v1"] = first
    second = place.publish("2")
    assert place.host("a", revision="v1").ensure(MODEL).commit == first
    place.hub.repositories[MODEL].tags["v1"] = second
    assert place.host("b", revision="v1").ensure(MODEL).commit == first


def test_a_revision_that_does_not_exist_is_named_in_the_error(place: Place) -> None:
    place.publish("1")
    with pytest.raises(Failure, match="no such revision"):
        place.host("a", revision="v9").ensure(MODEL)


def test_a_folder_is_used_as_it_is(place: Place, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert place.host("a").ensure(str(tmp_path)).path == tmp_path
    assert place.revisions.list() == []
