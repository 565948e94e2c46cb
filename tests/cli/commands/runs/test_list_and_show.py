"""The commands that tell how far runs are."""

import json
from datetime import UTC, datetime

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.runs import RunSummary
from tests.cli.commands.runs.conftest import put_row
from tests.support.run_objects import answered, put_run, put_summary

MOMENT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def test_a_run_is_shown_with_its_counts_costs_and_errors(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", half]) == 0
    printed = capsys.readouterr()
    for part in (
        "state        RUNNING",
        "4 of 207 done (1 %), 1 failed, 1 answered before, 3 in flight, 200 waiting",
        "  cost         $3.00 of a budget of $50.00 for 1.00 GPU hours",
        "s3://state/runs/half/results/ and errors/",
        "1 InvalidInput, such as b: The video is damaged.\n            Upload it again.",
    ):
        assert part in printed.out
    assert f"cosmos-batch runs watch {half}" in printed.err and "runs export" in printed.err


def test_a_run_is_shown_as_json(half: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", half, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    counts = {
        name: shown[name] for name in ("items", "succeeded", "failed", "reused", "inFlight", "waiting", "dollars")
    }
    assert counts == {
        "items": 207, "succeeded": 3, "failed": 1, "reused": 1, "inFlight": 3, "waiting": 200, "dollars": 3.0,
    }  # fmt: skip
    assert shown["state"] == "RUNNING" and shown["request"]["prompt"] == "What happens?"
    assert (
        shown["errors"][0]["code"] == "InvalidInput" and shown["errors"][0]["example"]["remedy"] == "Upload it again."
    )
    assert shown["results"] == "s3://state/runs/half/results/"


def test_a_run_whose_start_was_interrupted_can_be_resumed(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_run(deployment.clients("s3"), "r", [5])
    assert main(["runs", "show", "r"]) == 0
    printed = capsys.readouterr()
    assert "NOT BEGUN" in printed.out and "cosmos-batch runs resume r" in printed.err


def test_a_run_that_is_held_says_why_and_how_to_go_on(
    half: str, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.runs.hold(half, "The budget of $50 is spent.")
    assert main(["runs", "show", half]) == 0
    assert "HELD, ending" in capsys.readouterr().out
    deployment.runs.end(half, deployment.execution_arn(half), "HELD", "The budget of $50 is spent.")
    assert main(["runs", "show", half]) == 0
    printed = capsys.readouterr()
    assert "The budget of $50 is spent." in printed.out and f"runs resume {half}" in printed.err


def test_runs_are_listed_with_the_latest_first(
    half: str, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_run(deployment.clients("s3"), "over", [[answered("a")]])
    put_row(deployment, "over", items=1)
    deployment.runs.end("over", deployment.execution_arn("over"), "SUCCEEDED", None)
    counts = {"items": 1, "succeeded": 1, "failed": 0, "cancelled": 0, "reused": 0, "dollars": 0.004}
    put_summary(
        deployment.clients("s3"),
        RunSummary(id="over", state="SUCCEEDED", started_at=MOMENT, ended_at=MOMENT, **counts),  # type: ignore[arg-type]
    )
    assert main(["runs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        "over", "SUCCEEDED", "2026-11-20", "12:00", "1", "of", "1", "0", "$0.004", "s3://assets/clips/",
    ]  # fmt: skip
    assert "4 of 207" in lines[2] and "$3.00" in lines[2]
    assert main(["runs", "list", "--state", "running", "--json"]) == 0
    assert [run["id"] for run in json.loads(capsys.readouterr().out)] == [half]


def test_an_empty_list_of_runs_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out == "No run was ever started here.\n"


@pytest.mark.parametrize("command", [["show"], ["watch"], ["cancel"], ["resume"]])
def test_a_run_that_is_not_there_is_named(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", *command, "r"]) == 1
    assert "There is no run r here" in capsys.readouterr().err
