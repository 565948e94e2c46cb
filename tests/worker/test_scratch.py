"""Workers of a host share a disk, and remove their files from it."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cosmos_batch.worker.scratch import worker_folder
from tests.worker.test_mounts import environment


def of(root: Path, worker: str):
    return environment(root, None).model_copy(update={"scratch": str(root), "aws_batch_job_id": worker})


def test_temporary_files_of_a_worker_and_its_children_are_in_its_folder(tmp_path: Path) -> None:
    with worker_folder(of(tmp_path, "me")):
        assert Path(tempfile.mkdtemp()).parent == tmp_path / "me"
        child = subprocess.check_output([sys.executable, "-c", "import tempfile; print(tempfile.mkdtemp())"], text=True)
        assert Path(child.strip()).parent == tmp_path / "me"
    assert list(tmp_path.iterdir()) == []
    assert tmp_path not in Path(tempfile.gettempdir()).parents


def test_the_folder_is_removed_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="broken"), worker_folder(of(tmp_path, "me")):
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


def test_folders_of_killed_workers_are_removed_and_of_running_workers_kept(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "clip.mp4").write_bytes(b"x")
    (tmp_path / "living").mkdir()
    lock = os.open(tmp_path / "living", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with worker_folder(of(tmp_path, "me")):
        assert sorted(one.name for one in tmp_path.iterdir()) == ["living", "me"]
    os.close(lock)


def test_a_folder_that_is_removed_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = fcntl.flock, []

    def flock(descriptor: int, operation: int) -> None:
        if not calls:
            (tmp_path / "me").rmdir()
        calls.append(operation)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with worker_folder(of(tmp_path, "me")):
        assert (tmp_path / "me").is_dir()


def test_a_folder_that_is_removed_before_it_is_opened_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = Path.mkdir

    def removed_at_once(folder: Path, exist_ok: bool) -> None:
        monkeypatch.undo()
        mkdir(folder, exist_ok=exist_ok)
        folder.rmdir()

    monkeypatch.setattr(Path, "mkdir", removed_at_once)
    with worker_folder(of(tmp_path, "me")):
        assert (tmp_path / "me").is_dir()


def test_without_a_scratch_disk_the_systems_temporary_folder_is_used(tmp_path: Path) -> None:
    before = tempfile.gettempdir()
    with worker_folder(environment(tmp_path, None)):
        assert tempfile.gettempdir() == before
