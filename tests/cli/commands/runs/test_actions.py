"""The commands that start, stop and go on with runs."""

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.runs import executions
from cosmos_batch.cli.runs.local_inputs import LocalUploads
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.s3 import parse_uri
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import FakeStepFunctions
from tests.support.run_objects import put_run
from tests.support.runs import read_items


@pytest.fixture
def clips(deployment: Deployment) -> str:
    """Provide a prefix with three clips."""
    for number in range(3):
        deployment.clients("s3").put_object(Bucket="assets", Key=f"clips/{number}.mp4", Body=b"clip")
    return "s3://assets/clips/"


def test_a_run_is_written_and_its_execution_started(
    clips: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "start", clips, "--prompt", "Cars?", "--name", "monday", "--yes"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "monday\n" and "cosmos-batch runs watch monday" in printed.err
    (started,) = stepfunctions.started
    assert started["name"] == "monday" and json.loads(started["input"]) == {"run": {"id": "monday"}}
    assert [item.id for item in read_items(deployment.clients("s3"), "state", "monday")] == [
        f"clips/{number}.mp4" for number in range(3)
    ]


def test_without_a_yes_nothing_is_written_or_started(
    clips: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "start", clips, "--prompt", "Cars?"]) == 2
    assert "--yes" in capsys.readouterr().err
    assert stepfunctions.started == []
    assert "Contents" not in deployment.clients("s3").list_objects_v2(Bucket="state")


def test_a_name_that_was_used_is_refused(
    clips: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    put_row(deployment, "monday")
    assert main(["runs", "start", clips, "--name", "monday", "--yes"]) == 2
    assert "There is a run monday already" in capsys.readouterr().err and stepfunctions.started == []


def test_a_start_that_was_interrupted_begins_when_it_is_typed_again(
    clips: str, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    start = ["runs", "start", clips, "--name", "monday", "--yes"]
    with monkeypatch.context() as patched:
        patched.setattr(stepfunctions, "start_execution", interrupt)
        assert main(start) == 130
    assert main(start) == 0
    assert [started["name"] for started in stepfunctions.started] == ["monday"]


def interrupt_at(patch: pytest.MonkeyPatch, owner: object, name: str, call: int, after: bool = False) -> None:
    """Interrupt the command at a call of a function, or when that call has been made."""
    real, calls = getattr(owner, name), count(1)

    def interrupting(*arguments: Any, **named: Any) -> Any:
        is_it = next(calls) == call
        if is_it and not after:
            raise KeyboardInterrupt
        answer = real(*arguments, **named)
        if is_it:
            raise KeyboardInterrupt
        return answer

    patch.setattr(owner, name, interrupting)


@pytest.mark.parametrize(
    ("owner", "name", "call", "after"),
    [
        (StoredRun, "claim", 1, True),
        (LocalUploads, "_upload", 2, False),
        (StoredRun, "write_shard", 1, True),
        (StoredRun, "_write", 2, True),  # the list of shards, before the request
        (StoredRun, "_write", 3, True),  # the request
        (FakeStepFunctions, "start_execution", 1, False),
    ],
)
def test_a_start_over_a_folder_that_is_killed_at_any_step_goes_on_when_it_is_typed_again(
    owner: object, name: str, call: int, after: bool, tmp_path: Path, deployment: Deployment,
    stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for number in range(3):
        (tmp_path / f"{number}.mp4").write_bytes(b"clip")
    start = ["runs", "start", str(tmp_path), "--name", "monday", "--yes"]
    with monkeypatch.context() as patched:
        interrupt_at(patched, owner, name, call, after)
        assert main(start) == 130
    assert stepfunctions.started == []
    assert main(start) == 0
    assert [started["name"] for started in stepfunctions.started] == ["monday"]
    items = read_items(deployment.clients("s3"), "state", "monday")
    assert [item.id for item in items] == ["0.mp4", "1.mp4", "2.mp4"]
    for item in items:
        assert deployment.clients("s3").head_object(Bucket="assets", Key=parse_uri(str(item.input)).key)


def test_a_file_that_is_changed_between_plan_and_start_is_not_uploaded_even_if_its_size_is_the_same(
    tmp_path: Path, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "0.mp4"
    file.write_bytes(b"clip")
    upload = LocalUploads.upload

    def change_first(self: LocalUploads) -> None:
        file.write_bytes(b"note")
        os.utime(file, (0, 2_000_000_000))
        upload(self)

    monkeypatch.setattr(LocalUploads, "upload", change_first)
    assert main(["runs", "start", str(tmp_path), "--name", "monday", "--yes"]) == 1
    assert "0.mp4 was changed after the plan was made" in capsys.readouterr().err
    assert stepfunctions.started == []


def test_a_start_that_was_killed_when_its_execution_had_begun_begins_no_other(
    clips: str, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    start = ["runs", "start", clips, "--name", "monday", "--yes"]
    with monkeypatch.context() as patched:
        interrupt_at(patched, FakeStepFunctions, "start_execution", 1, after=True)
        assert main(start) == 130
    stepfunctions.put("monday", "RUNNING")
    assert main(start) == 2
    assert "There is a run monday already" in capsys.readouterr().err and len(stepfunctions.started) == 1


def test_a_plan_is_part_of_what_is_printed_as_json(clips: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "start", clips, "--yes", "--name", "monday", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["id"] == "monday" and printed["plan"]["items"] == 3


def test_a_run_is_cancelled_once(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(half, "RUNNING")
    assert main(["runs", "cancel", half]) == 0
    assert capsys.readouterr().out == f"{half} CANCELLED\n"
    row = deployment.runs.get(half)
    assert row is not None and row.state == "CANCELLED" and "runs cancel" in str(row.reason)
    assert stepfunctions.executions[half]["status"] == "ABORTED"
    deployment.runs.end(half, deployment.execution_arn(half), "CANCELLED", "It was stopped.")
    assert main(["runs", "cancel", half]) == 0
    assert capsys.readouterr().out == f"{half} CANCELLED already\n"


@pytest.fixture
def held(half: str, deployment: Deployment, stepfunctions: FakeStepFunctions) -> str:
    """Return the name of a run that is held because its budget is spent, and whose execution is over."""
    deployment.runs.hold(half, "The budget is spent.")
    deployment.runs.end(half, deployment.execution_arn(half), "HELD", "The budget is spent.")
    stepfunctions.put(half, "SUCCEEDED")
    return half


def test_a_held_run_that_is_over_is_finished_by_another_execution_when_it_is_cancelled(
    held: str, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "cancel", held]) == 0
    assert capsys.readouterr().out == f"{held} CANCELLED\n"
    (started,) = stepfunctions.started
    assert json.loads(started["input"]) == {"run": {"id": held, "finishCancelled": True}}


@pytest.fixture
def begun(
    deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Have every execution that is started note at once that it feeds its run."""

    def start(**arguments: str) -> None:
        stepfunctions.started.append(arguments)
        request = json.loads(arguments["input"])["run"]
        arn = deployment.execution_arn(arguments["name"])
        if deployment.runs.get(request["id"]) is None:
            put_row(deployment, request["id"], items=5)
        deployment.runs.begin(request["id"], arn, request.get("maxDollars"))

    monkeypatch.setattr(stepfunctions, "start_execution", start)
    monkeypatch.setattr(executions, "_POLL_SECONDS", 0)
    return lambda: None


@pytest.mark.usefixtures("begun")
def test_a_held_run_goes_on_with_another_execution_and_budget(
    held: str, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "resume", held, "--max-dollars", "100"]) == 0
    assert capsys.readouterr().out == f"{held} RUNNING\n"
    (started,) = stepfunctions.started
    assert started["name"].startswith(f"{held}-")
    assert json.loads(started["input"]) == {"run": {"id": held, "maxDollars": 100}}


@pytest.mark.usefixtures("begun")
def test_a_run_that_never_began_is_begun_under_its_name(
    deployment: Deployment, stepfunctions: FakeStepFunctions
) -> None:
    put_run(deployment.clients("s3"), "r", [5])
    assert main(["runs", "resume", "r"]) == 0
    assert [started["name"] for started in stepfunctions.started] == ["r"]


def test_a_run_that_goes_on_or_is_complete_is_not_resumed(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(half, "RUNNING")
    assert main(["runs", "resume", half]) == 2
    assert "goes on already" in capsys.readouterr().err
    stepfunctions.put(half, "SUCCEEDED")
    deployment.runs.end(half, deployment.execution_arn(half), "SUCCEEDED", None)
    assert main(["runs", "resume", half]) == 2
    assert f"cosmos-batch runs retry {half} --failed" in capsys.readouterr().err
    assert stepfunctions.started == []


def test_a_held_run_with_items_in_flight_says_when_it_can_be_resumed(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(half, "RUNNING")
    deployment.runs.hold(half, "The budget is spent.")
    assert main(["runs", "resume", half]) == 2
    printed = capsys.readouterr().err
    assert "half is HELD, ending: 3 items in flight." in printed and "Resume it when they have ended" in printed


@pytest.mark.usefixtures("begun")
def test_a_cancelled_run_is_resumed_once_it_has_ended(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(half, "RUNNING")
    assert main(["runs", "cancel", half]) == 0
    assert main(["runs", "resume", half]) == 2
    assert "half is CANCELLED, ending" in capsys.readouterr().err and not stepfunctions.started
    deployment.runs.end(half, deployment.execution_arn(half), "CANCELLED", "It was stopped.")
    assert main(["runs", "resume", half]) == 0
    assert capsys.readouterr().out == "half RUNNING\n"


def test_an_execution_that_does_not_begin_is_an_error(
    half: str, deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(executions, "BEGIN_SECONDS", 0)
    monkeypatch.setattr(executions, "_POLL_SECONDS", 0)
    deployment.runs.end(half, deployment.execution_arn(half), "FAILED", "A fault.")
    assert main(["runs", "resume", half]) == 1
    printed = capsys.readouterr().err
    assert "has not begun to feed half yet" in printed and "local cloud, in the logs in " in printed
