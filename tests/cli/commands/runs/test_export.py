"""The command that exports a run."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs.export.formats import FORMATS
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine
from tests.support.run_objects import answered, failed, put_run


@pytest.fixture(autouse=True)
def run(deployment: Deployment) -> None:
    """Write a run of two shards that have ended and one that has not."""
    put_run(deployment.clients("s3"), "r", [[answered("a"), failed("b")], [answered("c")], 200])


def test_a_half_written_run_is_exported_as_far_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "answers.csv"
    assert main(["runs", "export", "r", "--format", "csv", "--output", str(path)]) == 0
    printed = capsys.readouterr()
    with path.open(encoding="utf-8", newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == ["a", "b", "c"]
    assert printed.out == f"{path}\n"
    assert "3 items of r" in printed.err and "Not in it: 200 of 203 items" in printed.err


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Interrupt what reads the lines of a run after the first of them, until the fixture's value is undone."""
    real = StoredRun.lines

    def first_alone(self: StoredRun) -> Iterator[ResultLine]:
        yield next(real(self))
        raise KeyboardInterrupt

    with monkeypatch.context() as fault:
        fault.setattr(StoredRun, "lines", first_alone)
        yield fault


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_that_ends_in_the_middle_leaves_nothing_half(
    name: str, tmp_path: Path, interrupted: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers"
    assert main(["runs", "export", "r", "--format", name, "--output", str(path)]) == 130
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_ends_in_the_middle_keeps_the_earlier_table_and_can_be_repeated(
    tmp_path: Path, interrupted: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("earlier")
    export = ["runs", "export", "r", "--format", "csv", "--output", str(path), "--force"]
    assert main(export) == 130 and path.read_text() == "earlier"
    interrupted.undo()
    assert main(export) == 0
    assert len(path.read_text().splitlines()) == 4


def test_an_existing_file_is_replaced_only_with_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("mine")
    arguments = ["runs", "export", "r", "--format", "csv", "--output", str(path)]
    assert main(arguments) == 2 and path.read_text() == "mine"
    assert "--force" in capsys.readouterr().err
    assert main([*arguments, "--force"]) == 0 and path.read_text() != "mine"


def test_a_folder_takes_a_file_named_after_the_run(tmp_path: Path) -> None:
    assert main(["runs", "export", "r", "--format", "parquet", "--output", f"{tmp_path}/"]) == 0
    assert (tmp_path / "r.parquet").is_file()


def test_a_folder_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    arguments = ["runs", "export", "r", "--format", "fiftyone", "--output", str(tmp_path / "mine"), "--force"]
    assert main(arguments) == 2 and (tmp_path / "mine" / "file").is_file()
    assert "Name a new folder" in capsys.readouterr().err


@pytest.mark.parametrize("output", [".", "../mine"])
def test_the_current_folder_takes_an_export_if_it_is_empty(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    (folder / ".cosmos-batch-killed").mkdir(parents=True)
    before = folder.stat().st_ino
    monkeypatch.chdir(folder)
    assert main(["runs", "export", "r", "--format", "fiftyone", "--output", output]) == 0
    assert {path.name for path in folder.iterdir()} == {"videos", ".cosmos-batch-killed"}
    assert folder.stat().st_ino == before, "a shell stands in it"


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    output = str(tmp_path / "file" / "dataset")
    assert main(["runs", "export", "r", "--format", "fiftyone", "--output", output]) == 2
    assert f"{output} cannot be written: Not a directory." in capsys.readouterr().err


def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "export", "x", "--format", "csv", "--output", str(tmp_path / "x.csv")]) == 1
    assert "There is no run x here" in capsys.readouterr().err
    assert not (tmp_path / "x.csv").exists()
