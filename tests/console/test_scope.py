"""Paths never leave what was opened, whatever documents and links say."""

import os
from pathlib import Path

import pytest

from cosmos_batch.console.scope import Scope
from cosmos_batch.contract.error import Failure
from tests.console.conftest import Open
from tests.support import media_files
from tests.support.console_documents import write_answer, write_generation


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    """Provide a folder, beside which lies a file that must not be read."""
    media_files.image(tmp_path / "secret.png")
    write_answer(tmp_path / "secret.json", result="secret")
    (tmp_path / "opened").mkdir()
    return tmp_path / "opened"


@pytest.mark.parametrize("name", ["../secret.png", "/etc/passwd", "..", "", ".", "a/../../secret.png", "x\0.png"])
def test_a_document_names_a_file_elsewhere(open_console: Open, opened: Path, name: str) -> None:
    write_answer(opened / "a.json", inputFile=name, inputUri=f"s3://bucket/../{name}")
    write_generation(opened / "b.json", [name])
    client = open_console(opened)
    for item in (1, 2):
        assert not client.get(f"/api/views/folder/items/{item}").json()["media"][0]["present"]
        assert client.get(f"/api/views/folder/items/{item}/media/0").status_code == 404
        assert client.get(f"/api/views/folder/items/{item}/media/0/poster").status_code == 404


def test_a_link_leads_elsewhere(open_console: Open, opened: Path) -> None:
    (opened / "link.png").symlink_to(opened.parent / "secret.png")
    (opened / "link.json").symlink_to(opened.parent / "secret.json")
    (opened / "folder").symlink_to(opened.parent)
    write_answer(opened / "a.json", inputFile="link.png")
    client = open_console(opened)
    assert client.get("/api/views/folder/rows").json()["total"] == 1
    assert client.get("/api/views/folder/items/1/media/0").status_code == 404


def test_a_file_becomes_a_link_after_it_was_found(open_console: Open, opened: Path) -> None:
    media_files.image(opened / "a.png")
    write_answer(opened / "a.json", inputFile="a.png")
    client = open_console(opened)
    assert client.get("/api/views/folder/items/1/media/0").status_code == 200
    (opened / "a.png").unlink()
    (opened / "a.png").symlink_to(opened.parent / "secret.png")
    assert client.get("/api/views/folder/items/1/media/0").status_code == 404
    (opened / "a.json").unlink()
    (opened / "a.json").symlink_to(opened.parent / "secret.json")
    assert client.get("/api/views/folder/items/1").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/../secret.png",
        "/%2e%2e/secret.png",
        "/api/views/folder/items/1/media/../../../../secret.png",
        "/static/app.js",
    ],
)
def test_no_path_of_a_request_is_a_path_of_a_file(open_console: Open, opened: Path, path: str) -> None:
    assert open_console(opened).get(path).status_code == 404


@pytest.mark.parametrize(
    ("name", "content"), [("a.svg", b"<svg onload='alert(1)'/>"), ("a.mp4", b"<script>alert(1)</script>")]
)
def test_what_is_no_media_is_never_served(open_console: Open, opened: Path, name: str, content: bytes) -> None:
    (opened / name).write_bytes(content)
    write_answer(opened / "a.json", inputFile=name)
    answer = open_console(opened).get("/api/views/folder/items/1/media/0")
    assert answer.status_code in (404, 422) and content not in answer.content


def test_media_are_served_in_a_sandbox(open_console: Open, opened: Path) -> None:
    media_files.image(opened / "a.png")
    write_answer(opened / "a.json", inputFile="a.png")
    headers = open_console(opened).get("/api/views/folder/items/1/media/0").headers
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert (headers["content-type"], headers["x-content-type-options"]) == ("image/png", "nosniff")


def test_hidden_folders_and_names_that_are_no_text_are_left_out(opened: Path) -> None:
    write_answer(opened / ".git" / "a.json")
    write_answer(opened / "b" / "a.json")
    (Path(os.fsdecode(os.fsencode(opened) + b"/\xff.json"))).write_text("{}")
    assert list(Scope.of(opened).walk()) == ["b/a.json"]


def test_what_does_not_exist_cannot_be_opened(opened: Path) -> None:
    with pytest.raises(Failure, match="no folder and no file"):
        Scope.of(opened / "missing")
