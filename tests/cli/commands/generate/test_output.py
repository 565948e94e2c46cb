"""`generate` saves the files of a job by the rules of `--output`, and loses no result."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from cosmos_batch.cli.commands import generate
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult, print_or_save
from cosmos_batch.cli.main import main
from cosmos_batch.cli.output import OutputTarget

KEYS = ("ep1/rain.json", "ep1/rain.mp4")  # the document first, as a job lists them
ASKED = ["generate", "--prompt", "Rain.", "--no-guardrails"]


@pytest.fixture(autouse=True)
def made(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each `generate` end with a document and a video that were made beside an upload from the folder `ep1`."""
    monkeypatch.chdir(tmp_path)
    uris = []
    for name in KEYS:
        key = f"uploads/20261120-120000-00000000/{name}"
        deployment.clients("s3").put_object(Bucket="assets", Key=key, Body=json.dumps({"name": name}).encode())
        uris.append(f"s3://assets/{key}")
    monkeypatch.setattr(generate, "local_deployment", lambda *_, **__: nullcontext(deployment))
    monkeypatch.setattr(generate, "make", lambda *_: JobResult(document_uri=uris[0], file_uris=uris))


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("output", ["made/", "made"])
def test_a_folder_gets_all_files_under_the_paths_of_their_inputs(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name is a folder's if it ends in / or if the folder exists."""
    if not output.endswith("/"):
        (tmp_path / output).mkdir()
    assert main([*ASKED, "--output", output]) == 0
    assert files(tmp_path / "made") == set(KEYS)
    assert capsys.readouterr().out.splitlines() == ["made/ep1/rain.mp4", "made/ep1/rain.json"]


def test_without_an_output_files_are_saved_here(tmp_path: Path) -> None:
    assert main(ASKED) == 0
    assert files(tmp_path) == set(KEYS)


@pytest.mark.parametrize("output", ["rain.json", "/proc/made/", "a file/"])
def test_an_output_that_cannot_be_written_is_refused_before_the_engine_starts(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`rain.json` names one file, and a video is made with its document."""
    (tmp_path / "a file").touch()
    monkeypatch.setattr(generate, "local_deployment", lambda *_, **__: pytest.fail("an engine was started"))
    assert main([*ASKED, "--output", output]) == 2
    assert output in capsys.readouterr().err


def test_one_file_cannot_take_a_video_and_its_document(
    deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`result` knows only from the job's end how many files there are; the document is printed then."""
    uris = [f"s3://assets/uploads/20261120-120000-00000000/{name}" for name in KEYS]
    target = OutputTarget(tmp_path / "rain.mp4", is_folder=False, force=False)
    with pytest.raises(CliError, match=r"several to save: ep1/rain\.json, ep1/rain\.mp4\.$") as refused:
        print_or_save(deployment, JobResult(document_uri=uris[0], file_uris=uris), target)
    assert refused.value.remedy == f"Name a folder: --output {tmp_path}/rain/"
    assert json.loads(capsys.readouterr().out) == {"name": "ep1/rain.json"} and not files(tmp_path)


def test_a_folder_is_not_advised_where_a_file_has_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ASKED, "--output", "rain.json"]) == 2
    assert "Name a folder: --output rain.json/" in capsys.readouterr().err
    (tmp_path / "rain.json").touch()
    assert main([*ASKED, "--output", "rain.json"]) == 2
    assert "Name a folder that has another name." in capsys.readouterr().err


@pytest.mark.parametrize("force", [False, True])
def test_existing_files_are_kept_unless_forced(force: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made" / "ep1").mkdir(parents=True)
    mine = tmp_path / "made" / "ep1" / "rain.mp4"
    mine.write_text("mine")
    assert main([*ASKED, "--output", "made/", *(["--force"] if force else [])]) == (0 if force else 1)
    assert (mine.read_text() == "mine") != force
    printed = capsys.readouterr()
    if not force:
        assert "made/ep1/rain.mp4 exists, and was kept" in printed.err
        assert json.loads(printed.out) == {"name": "ep1/rain.json"}, "the document is printed, so that it is not lost"


def test_a_document_that_cannot_be_saved_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "ep1").touch()
    assert main([*ASKED, "--output", "made/"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"name": "ep1/rain.json"}
    assert "cannot be saved" in printed.err and "s3://assets/uploads/" in printed.err
