"""`cosmos-batch view` as a person starts and ends it."""

from pathlib import Path

import httpx
import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.errors import CliError
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


def test_a_run_of_a_stopped_cloud_is_not_shown_and_its_answers_can_be_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COSMOS_BATCH_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "kept-jobs" / "runs").mkdir(parents=True)
    (tmp_path / "home" / "kept-jobs" / "runs" / "monday.json").write_text("{}")

    def find() -> None:
        raise CliError("No cloud answers.", "Start one.")

    monkeypatch.setattr(deployments, "find", find)
    assert main(["view", "monday", "--no-browser"]) == 2
    printed = capsys.readouterr().err
    assert "its input files were not kept" in printed and "runs export monday --format jsonl" in printed
    monkeypatch.setenv("AWS_PROFILE", "ours")
    assert main(["view", "monday", "--no-browser"]) == 2
    assert "No cloud answers." in capsys.readouterr().err, "the cause, since a run in AWS is meant"
