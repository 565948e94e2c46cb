"""A checkpoint folder is used where it is."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.store import ModelStore


def test_a_checkpoint_folder_is_not_copied_backed_up_or_invalidated(
    store: ModelStore, checkpoint: Path, root: Path, keys: Callable[[], list[str]]
) -> None:
    stored = store.ensure(str(checkpoint), newer_than=datetime.now(UTC))
    assert stored.path == checkpoint
    assert stored.model == "checkpoint"
    assert store.find(str(checkpoint)) == stored
    assert store.back_up(stored) is False
    assert keys() == []
    assert not root.exists()


def test_the_commit_of_a_folder_follows_its_contents(store: ModelStore, checkpoint: Path) -> None:
    def commit() -> str:
        return store.ensure(str(checkpoint)).commit

    first = commit()
    assert len(first) == 40
    os.utime(checkpoint / "config.json", (1, 1))
    assert commit() == first, "the time of a small file does not count"
    (checkpoint / "config.json").write_text("[]")
    second = commit()
    assert second != first
    weights = checkpoint / "model.safetensors"
    with weights.open("ab") as file:
        file.write(b"more")
    third = commit()
    assert third != second
    os.utime(weights, (1, 1))
    assert commit() != third, "the time of a large file counts"


@pytest.mark.parametrize(("name", "problem"), [("missing", "is not a directory"), ("empty", "has no config.json")])
def test_a_folder_that_is_no_checkpoint_is_refused(store: ModelStore, tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(Failure) as caught:
        store.ensure(str(tmp_path / name))
    assert caught.value.error.code == "ModelUnavailable"
    assert problem in caught.value.error.message
