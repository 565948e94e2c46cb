"""Runs as a person types them: the installed command, against the app on a local cloud."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.support.deployed_app import App, wait_for

PROGRAM = Path(sys.executable).with_name("cosmos-batch")
PROMPT = ("--prompt", "What is it?")

# Kills the process at its second call of a function, as a lost machine would.
KILLED = """
import os, signal, sys
from importlib import import_module
from cosmos_batch.cli.main import main

module, _, name = sys.argv[1].partition(":")
owner, _, function = name.rpartition(".")
place = getattr(import_module(module), owner) if owner else import_module(module)
real, calls = getattr(place, function), []

def once(*arguments, **named):
    calls.append(1)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)

setattr(place, function, once)
main(sys.argv[3:])
"""


def environment(app: App) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "COSMOS_BATCH_"))}
    return {**kept, **app.cloud.environment, "COSMOS_BATCH_HOME": str(app.folder / "home")}


def typed(app: App, *arguments: str, status: int = 0) -> str:
    """Run the installed command, and return what it prints to standard output."""
    ran = subprocess.run(
        [PROGRAM, "runs", *arguments], env=environment(app), capture_output=True, text=True, check=False, timeout=280
    )
    assert ran.returncode == status, f"{arguments}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


def shown(app: App, run: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(typed(app, "show", run, "--json"))
    return answer


@pytest.fixture(scope="module")
def folder(app: App, picture: Path) -> Path:
    """Provide a folder of this machine with six pictures and a file that is none."""
    place = app.folder / "clips"
    for name in ("a.png", "b.png", "c.png", "deep/a.png", "deep/ü &+%.png", "deep/er/z.png"):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture.read_bytes())
    (place / "bad.png").write_bytes(b"no picture")
    return place


@pytest.fixture(scope="module")
def first(app: App, folder: Path) -> str:
    """Provide a run over the folder that was watched to its end."""
    printed = typed(app, "start", f"{folder}/", *PROMPT, "--name", "first", "--yes", "--watch", status=1)
    assert printed.startswith("first\nfirst SUCCEEDED\n  7 of 7 done (100 %), 1 failed")
    assert "1 InvalidInput, such as bad.png:" in printed
    return "first"


def test_a_run_over_a_folder_is_shown_and_exported(app: App, first: str, tmp_path: Path) -> None:
    printed = shown(app, first)
    assert (printed["state"], printed["items"], printed["succeeded"], printed["failed"]) == ("SUCCEEDED", 7, 6, 1)
    assert printed["errors"][0]["example"]["id"] == "bad.png" and printed["errors"][0]["example"]["remedy"]
    assert "7 of 7 done" in typed(app, "show", first)
    assert json.loads(typed(app, "list", "--json"))[-1]["id"] == first

    typed(app, "export", first, "--format", "parquet", "--output", str(tmp_path / "t.parquet"))
    rows = {row["id"]: row for row in pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()}
    assert rows["deep/ü &+%.png"]["answer"] == "What is it?" and rows["bad.png"]["error_code"] == "InvalidInput"
    assert rows["a.png"]["document"].startswith("s3://") and len(rows) == 7
    typed(app, "export", first, "--format", "csv", "--output", str(tmp_path / "t.csv"))
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        assert {row["id"] for row in csv.DictReader(file)} == set(rows)


def test_what_failed_is_asked_again_and_what_is_answered_costs_nothing(
    app: App, first: str, folder: Path, picture: Path
) -> None:
    (folder / "bad.png").write_bytes(picture.read_bytes())
    place = next(entry for entry in app.keys("uploads/") if entry.endswith("/bad.png"))
    app.client("s3").put_object(
        Bucket=app.assets, Key=place, Body=picture.read_bytes(), Metadata={"cosmos-batch-job": "submitted"}
    )
    printed = typed(app, "retry", first, "--failed", "--name", "second", "--watch")
    assert "1 of 1 done" in printed
    typed(app, "start", f"{folder}/", *PROMPT, "--exclude", "bad.png", "--name", "third", "--yes", "--watch")
    printed = shown(app, "third")
    assert (printed["succeeded"], printed["reused"], printed["gpuSeconds"]) == (6, 6, 0)


def test_two_runs_are_compared(app: App, first: str, folder: Path) -> None:
    others = ("--exclude", "bad.png", "--name", "other", "--yes", "--watch")
    typed(app, "start", f"{folder}/", "--prompt", "And now?", *others)
    printed = json.loads(typed(app, "diff", first, "other", "--json"))
    assert printed["counts"] == {"changed": 6, "only in the first": 1}
    change = next(one for one in printed["differences"] if one["id"] == "a.png")
    assert (change["first"]["answer"], change["second"]["answer"]) == ("What is it?", "And now?")


@pytest.mark.parametrize(
    ("function", "call"),
    [
        ("cosmos_batch.cli.runs.stored_run:StoredRun._write", 3),
        # tests/cli/commands/runs/test_actions.py interrupts a start at each of its steps, in one process.
        pytest.param("cosmos_batch.cli.runs.local_inputs:LocalUploads._upload", 2, marks=pytest.mark.slow),
        pytest.param("cosmos_batch.cli.runs.confirm_and_start:begin_run", 1, marks=pytest.mark.slow),
    ],
)
def test_a_start_that_was_killed_goes_on_when_it_is_typed_again(
    function: str, call: int, app: App, picture: Path, tmp_path: Path
) -> None:
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / name).write_bytes(picture.read_bytes())
    run = f"killed-{function.rpartition('.')[2].strip('_')}".replace(":", "-")
    start = ["start", f"{tmp_path}/", *PROMPT, "--name", run, "--yes"]
    command = [sys.executable, "-c", KILLED, function, str(call), "runs", *start]
    killed = subprocess.run(command, env=environment(app), capture_output=True, check=False, timeout=280)
    assert killed.returncode == -9, killed.stderr
    assert run not in [one["name"] for one in app.executions()]
    printed = typed(app, *start, "--watch")
    assert "3 of 3 done (100 %), 0 failed" in printed


def test_a_run_that_is_cancelled_ends_and_what_was_under_way_can_be_asked_again(
    app: App, folder: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    prompt = json.dumps({"until": str(go), "text": "At last."})
    typed(app, "start", str(folder / "deep"), "--prompt", prompt, "--name", "stopped", "--yes")
    wait_for(lambda: shown(app, "stopped")["inFlight"] == 3, 120, "its items were not fed")
    assert typed(app, "cancel", "stopped") == "stopped CANCELLED\n"
    assert "stopped CANCELLED: " in typed(app, "watch", "stopped", status=1)
    go.touch()
    assert "3 of 3 done (100 %), 0 failed" in typed(app, "retry", "stopped", "--failed", "--name", "again", "--watch")
    assert "3 of 3 done (100 %), 0 failed" in typed(app, "resume", "stopped", "--watch")
