"""The results of a measurement tell which code was measured."""

import py_compile
import subprocess
from pathlib import Path

import pytest

from benchmarks import machine
from benchmarks.machine import COMMIT, circumstances, commit


def git(folder: Path, *arguments: str) -> str:
    own = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    command = ["git", "-C", str(folder), *own, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_is_that_of_the_working_tree_and_marked_where_files_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(COMMIT, raising=False)
    assert commit(tmp_path) == "unknown"
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "One")
    git(tmp_path, "tag", "v1")  # no tag takes the commit's place
    assert commit(tmp_path) == git(tmp_path, "rev-parse", "--short", "HEAD")
    (tmp_path / "file").write_text("two")
    assert commit(tmp_path).endswith("-dirty")


def test_a_copy_without_history_is_told_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(COMMIT, "712256b7")
    assert commit(tmp_path) == circumstances()["commit"] == "712256b7"


def test_the_software_says_whether_its_packages_are_compiled_to_bytecode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "some_package.py"
    module.write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(machine, "version", lambda _: "1.0")
    monkeypatch.setenv("CUDA_HOME", "/none")
    assert machine.software("some_package") == {"some_package": "1.0", "bytecode": False, "cudaHome": "/none"}
    py_compile.compile(str(module))
    assert machine.software("some_package")["bytecode"] is True
