"""The documents below a prefix in S3 in the console."""

import json
from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.commands.view import _opened
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.console.console import FOLDER
from tests.cli.console.conftest import client_of
from tests.support import media_files
from tests.support.browser import read_view
from tests.support.console_documents import write_answer


@pytest.fixture(autouse=True)
def prefix(deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a prefix with an answer, its clip and other JSON, and files beside it that are not below it."""
    monkeypatch.setattr(deployments, "environment_clients", lambda: deployment.clients)
    s3 = deployment.clients("s3")
    for name in ("clip.mp4", "secret.mp4"):
        media_files.video(tmp_path / name)
    answer = write_answer(tmp_path / "answer.json", moreInputs=[{"inputFile": "secret.mp4"}])
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"result": 1}))
    places = {"clips/day/clip.mp4": "clip.mp4", "clips/answer.json": answer.name, "clips/other.json": other.name,
              "secret.mp4": "secret.mp4", "answer.json": answer.name}  # fmt: skip
    for key, name in places.items():
        s3.upload_file(str(tmp_path / name), "assets", key)


def test_the_documents_below_a_prefix_are_shown_beside_their_media_and_nothing_else_of_the_bucket() -> None:
    with _opened("s3://assets/clips/") as console:
        assert console.backend is None
        read_view(console, FOLDER)
        with client_of(console) as client:
            state = client.get("/api/views/folder/state").json()
            assert (state["title"], state["jsonFiles"], state["documents"], state["problem"]) == ("clips", 2, 1, None)
            detail = client.get("/api/views/folder/items/1").json()
            clip, secret = detail["media"]
            assert (detail["path"], clip["codec"], secret["present"]) == ("answer.json", "H.264", False)
            part = client.get(clip["url"], headers={"range": "bytes=4-7"})
            assert (part.status_code, part.content) == (206, b"ftyp")
            assert client.get(clip["poster"]).headers["content-type"] == "image/jpeg"


def test_a_prefix_is_written_as_static_files(tmp_path: Path) -> None:
    assert main(["view", "s3://assets/clips/", "--export", str(tmp_path / "page")]) == 0
    written = (tmp_path / "page" / "data" / "rows.js").read_text()
    assert "A red circle moves." in written and "assets" not in written


def test_the_title_of_a_whole_bucket_is_not_its_name() -> None:
    with _opened("s3://assets/") as console:
        assert read_view(console, FOLDER).scan.state().title == "bucket"


@pytest.mark.parametrize(
    ("uri", "said"), [("s3://none/clips/", "There is no bucket none."), ("s3:///clips", "names no bucket")]
)
def test_a_prefix_that_cannot_be_listed(uri: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", uri, "--no-browser"]) != 0
    assert said in capsys.readouterr().err
