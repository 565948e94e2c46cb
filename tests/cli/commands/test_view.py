"""`cosmos-batch view` as a person starts and ends it."""

from pathlib import Path

import httpx
import pytest

from cosmos_batch.cli.main import main
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


def test_a_file_that_is_no_document_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clip.mp4").touch()
    assert main(["view", str(tmp_path / "clip.mp4"), "--no-browser"]) == 2
    assert "clip.mp4 is no document" in capsys.readouterr().err
