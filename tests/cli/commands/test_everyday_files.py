"""A folder of files such as people have is submitted with one command, and what is no media is left out by name."""

from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from tests.cli.conftest import FakeStepFunctions
from tests.support.everyday_files import FILES
from tests.support.runs import read_items


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Provide the files, each in a folder of its own, because some have one name."""
    folder = tmp_path_factory.mktemp("everyday")
    paths = []
    for number, make in enumerate(FILES.values()):
        (folder / str(number)).mkdir()
        paths.append(make(folder / str(number)))
    return paths


def test_all_of_them_are_submitted_under_their_names(
    files: list[Path], deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    folder = files[0].parents[1]
    (folder / "notes.txt").write_text("no media")
    (folder / "two\nlines.mp4").write_bytes(b"content")
    (folder / "empty.mp4").touch()
    wrong = [str(folder / name) for name in ("notes.txt", "two\nlines.mp4", "empty.mp4")]
    assert main(["submit", *map(str, files), *wrong, "--prompt", "What happens?"]) == 2
    refused = capsys.readouterr().err
    assert all(words in refused for words in ("notes.txt is of a kind", "has a line break", "empty.mp4 is empty"))
    assert main(["submit", *map(str, files), *wrong, "--prompt", "What happens?", "--skip-invalid"]) == 0
    run = capsys.readouterr().out.strip()
    assert [started["name"] for started in stepfunctions.started] == [run]
    ids = {item.id for item in read_items(deployment.clients("s3"), "state", run)}
    assert ids == {str(path.relative_to(folder)) for path in files}, "the path below the folder that all share"
