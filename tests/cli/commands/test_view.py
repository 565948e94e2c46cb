"""`cosmos-batch view` as a person starts and ends it."""

from pathlib import Path

import httpx
import pytest

from cosmos_batch.cli.main import main
from tests.support import media_files
from tests.support.console_documents import write_answer
from tests.support.served_page import served_page


@pytest.mark.parametrize("ignores_interrupts", [False, True])
def test_the_page_is_served_until_ctrl_c_is_pressed(tmp_path: Path, ignores_interrupts: bool) -> None:
    """Interrupts are ignored at first in what a script of a shell starts in its background."""
    write_answer(tmp_path / "a.json")
    with served_page("view", str(tmp_path), "--no-browser", ignores_interrupts=ignores_interrupts) as page:
        with httpx.Client(base_url=page.url) as client:
            assert "<title>Cosmos Batch</title>" in client.get("/").text
            assert client.get("/api/views/folder/state").status_code == 401
            assert client.post("/api/session", json={"token": page.token}).status_code == 204
            assert client.get("/api/views/folder/state").json()["title"] == tmp_path.name
        status, said = page.interrupt()
    assert status == 0, said
    assert said.splitlines()[-1] == "Ended."


def test_a_file_that_is_no_document_and_no_media_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("content")
    assert main(["view", str(tmp_path / "notes.txt"), "--no-browser"]) == 2
    assert "notes.txt is no document, video or image" in capsys.readouterr().err


def test_what_was_answered_about_a_clip_is_shown_when_the_clip_is_named(tmp_path: Path) -> None:
    clip = media_files.video(tmp_path / "clip.mp4")
    write_answer(tmp_path / "a.json", userPrompt="Is it safe?")
    write_answer(tmp_path / "b.json", inputFile="other.mp4", userPrompt="Is it red?")
    assert main(["view", str(clip), "--export", str(tmp_path / "page")]) == 0
    rows = (tmp_path / "page" / "data" / "rows.js").read_text()
    assert "Is it safe?" in rows and "Is it red?" not in rows
