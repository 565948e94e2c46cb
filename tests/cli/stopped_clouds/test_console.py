"""Runs of a local cloud that was stopped, in the console."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from cosmos_batch.cli.commands import console as console_command
from cosmos_batch.cli.commands import view as view_command
from cosmos_batch.cli.console.run_console import console_of_runs
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.stopped_clouds import runs
from cosmos_batch.cli.stopped_clouds.lookup import find_run_deployments
from cosmos_batch.console.console import Console
from cosmos_batch.contract.runs import RunItem, ShardRef
from cosmos_batch.state import ItemEnd
from tests.cli.commands.runs.conftest import put_row
from tests.cli.console.conftest import client_of
from tests.cli.stopped_clouds.conftest import Cloud
from tests.support import media_files
from tests.support.browser import read_view
from tests.support.run_objects import PIPELINE, answered, failed, put_run


@pytest.fixture
def stopped(cloud: Cloud, deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """Provide a cloud that was stopped after a run over a clip, a picture that was too much to keep, and a bad file."""
    s3 = deployment.clients("s3")
    clip, picture = media_files.video(tmp_path / "clip.mp4"), media_files.image(tmp_path / "red.png")
    sizes = {"clip.mp4": clip.stat().st_size, "red.png": picture.stat().st_size, "gone.mp4": 0}
    for path in (clip, picture):
        s3.upload_file(str(path), "assets", path.name)
    put_run(s3, "monday", [[answered("clip.mp4"), answered("red.png", "It is red."), failed("gone.mp4")]])
    items = [RunItem(id=name, input=f"s3://assets/{name}", size=sizes[name]) for name in ("gone.mp4", *sizes)]
    lines = "".join(f"{item.model_dump_json()}\n" for item in items)
    s3.put_object(Bucket="state", Key="runs/monday/shards/00000.jsonl", Body=lines)
    monkeypatch.setattr(runs, "INPUT_BYTES", sizes["clip.mp4"])
    put_row(deployment, "monday", items=3)
    deployment.runs.shards.feed(ShardRef(run="monday", shard="00000", pipeline=PIPELINE, items=3), "a task token", 0.1)
    answer = ItemEnd("succeeded", gpu_seconds=1800.0, dollars=1.5)
    ends = [answer, answer, ItemEnd("failed")]
    deployment.runs.shards.count("monday", "00000", dict(enumerate(ends)))
    deployment.runs.end("monday", deployment.execution_arn("monday"), "SUCCEEDED", None)
    assert main(["local", "down"]) == 0
    return cloud


@pytest.fixture
def client(stopped: Cloud) -> Iterator[TestClient]:
    with console_of_runs(find_run_deployments(), "monday") as console:
        read_view(console, "monday")
        with client_of(console) as client:
            yield client


def test_a_kept_run_is_listed_and_its_items_are_shown_with_the_files_that_were_kept(client: TestClient) -> None:
    assert [(run["id"], run["succeeded"]) for run in client.get("/api/runs").json()["runs"]] == [("monday", 2)]
    state = client.get("/api/views/monday/state").json()
    assert (state["documents"], state["failed"], state["grows"]) == (3, 1, False)
    rows = {row["name"]: row for row in client.get("/api/views/monday/rows").json()["rows"]}
    clip = client.get(f"/api/views/monday/items/{rows['clip.mp4']['id']}").json()["media"][0]
    assert (clip["name"], clip["codec"], clip["present"]) == ("clip.mp4", "H.264", True)
    part = client.get(clip["url"], headers={"range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == b"ftyp"
    assert client.get(clip["poster"]).headers["content-type"] == "image/jpeg"
    picture = client.get(f"/api/views/monday/items/{rows['red.png']['id']}").json()["media"][0]
    assert not picture["present"], "it was too much to be kept beside the clip"


def test_a_kept_run_can_be_looked_at_alone(client: TestClient) -> None:
    assert client.get("/api/runs/monday").json()["actions"] == []
    for what in ("cancel", "resume", "retry"):
        answer = client.post(f"/api/runs/monday/{what}", json={})
        assert answer.status_code == 409 and "It can be read, and cannot go on." in answer.json()["message"]
    assert "are not kept" in client.get("/api/runs/monday/items/1/log").json()["message"]
    for answer in (
        client.get("/api/new"),
        client.post("/api/plans", json={}),
        client.post("/api/plans/a/start", json={}),
    ):
        assert answer.status_code == 409 and "no cloud answers" in answer.json()["message"]


@pytest.mark.parametrize(("line", "home"), [("view monday", "monday"), ("console", "")])
def test_the_commands_open_kept_runs(stopped: Cloud, monkeypatch: pytest.MonkeyPatch, line: str, home: str) -> None:
    shown: list[str] = []

    def serve(console: Console, what: str, port: int, no_browser: bool) -> None:
        shown.append(console.home)
        assert console.view("monday") is not None

    for module in (view_command, console_command):
        monkeypatch.setattr(module, "serve", serve)
    assert main(line.split()) == 0
    assert shown == [home]


def test_a_run_of_a_stopped_cloud_can_be_exported_as_static_files(stopped: Cloud, tmp_path: Path) -> None:
    assert main(["view", "monday", "--export", str(tmp_path / "page"), "--media"]) == 0
    written = {str(path.relative_to(tmp_path / "page")) for path in (tmp_path / "page" / "media").rglob("*.*")}
    assert written == {"media/1/0-poster.jpg", "media/1/0.mp4"}
    assert '"isLocal": true' in (tmp_path / "page" / "data" / "rows.js").read_text()


def test_a_local_cloud_is_said_to_cost_nothing(stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", "monday"]) == 0
    cost = "no cost on a local cloud (AWS would have charged $3.00 of a budget of $50.00 for 1.00 GPU hours)"
    assert cost in capsys.readouterr().out
    assert main(["runs", "list"]) == 0
    heads, run, *_ = capsys.readouterr().out.splitlines()
    assert "COST ON AWS" in heads and "$3.00" in run


def test_a_kept_run_is_not_taken_for_one_in_aws(
    stopped: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_PROFILE", "ours")
    assert main(["view", "monday", "--no-browser"]) == 2
    assert "no run: " in capsys.readouterr().err
