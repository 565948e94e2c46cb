"""`local down` keeps runs and what they left, and the commands that read runs find them afterwards."""

import csv
import json
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.stopped_clouds import runs
from cosmos_batch.cli.stopped_clouds.lookup import kept_here
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.state import ItemEnd
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import FakeStepFunctions, time_that_runs
from tests.cli.stopped_clouds.conftest import Cloud
from tests.support.run_objects import PIPELINE, answered, failed, put_run

DOCUMENT = "s3://assets/a_CosmosReason.json"


@pytest.fixture(autouse=True)
def ended_runs(deployment: Deployment, cloud: Cloud) -> None:
    """Provide two runs that have ended and differ in one answer."""
    deployment.clients("s3").put_object(Bucket="assets", Key=parse_uri(DOCUMENT).key, Body=b'{"result": "A car."}')
    for name, answer in (("monday", "A car."), ("tuesday", "A bus.")):
        put_run(deployment.clients("s3"), name, [[answered("a", answer, document=DOCUMENT), failed("b")]])
        put_row(deployment, name, items=2)
        ref = ShardRef(run=name, shard="00000", pipeline=PIPELINE, items=2)
        deployment.runs.shards.feed(ref, "a task token", 0.1)
        deployment.runs.shards.count(name, "00000", {0: ItemEnd("succeeded", dollars=1.5), 1: ItemEnd("failed")})
        deployment.runs.end(name, deployment.execution_arn(name), "SUCCEEDED", None)


@pytest.fixture
def stopped(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> Cloud:
    """Provide the cloud after `local down`."""
    assert main(["local", "down"]) == 0
    assert capsys.readouterr().out == "Stopped.\nIts runs are kept (2): cosmos-batch runs list\n"
    return cloud


def test_kept_runs_are_listed_and_shown(stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "--json"]) == 0
    listed = {run["id"]: run for run in json.loads(capsys.readouterr().out)}
    assert set(listed) == {"monday", "tuesday"}
    assert [listed["monday"][name] for name in ("state", "succeeded", "failed", "dollars")] == ["SUCCEEDED", 1, 1, 1.5]
    assert main(["runs", "list"]) == 0
    assert "monday" in capsys.readouterr().out
    assert main(["runs", "show", "monday"]) == 0
    printed = capsys.readouterr()
    assert "2 of 2 done (100 %), 1 failed" in printed.out and "The video is damaged." in printed.out
    assert "runs export monday" in printed.err and "runs retry" not in printed.err, "a kept run cannot go on"
    assert main(["runs", "watch", "monday"]) == 1
    assert capsys.readouterr().out.startswith("monday SUCCEEDED\n")


def test_the_answers_of_kept_runs_are_exported_and_compared(
    stopped: Cloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "export", "monday", "--format", "csv", "--output", f"{tmp_path}/a.csv"]) == 0
    with (tmp_path / "a.csv").open(newline="") as file:
        assert [(row["id"], row["answer"], row["error_code"]) for row in csv.DictReader(file)] == [
            ("a", "A car.", ""), ("b", "", "InvalidInput"),
        ]  # fmt: skip
    capsys.readouterr()
    assert main(["runs", "diff", "monday", "tuesday", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["counts"] == {"changed": 1, "fails in both": 1}
    assert printed.err.count("No cloud answers") == 1, "it is said once for both runs"


def test_the_documents_of_a_run_are_kept_and_no_task_token_is(stopped: Cloud, tmp_path: Path) -> None:
    kept = kept_here().runs.deployment("monday").clients("s3")
    assert json.loads(kept.get_object(**dict(zip(("Bucket", "Key"), parse_uri(DOCUMENT), strict=True)))["Body"].read())
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b'"succeeded"' in stored and b"a task token" not in stored and b"tokenIds" not in stored


def test_the_media_of_kept_runs_are_told_to_be_gone(
    stopped: Cloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "export", "monday", "--format", "fiftyone", "--output", f"{tmp_path}/data"]) == 0
    assert "1 answer left out whose file is gone" in capsys.readouterr().err


def test_a_run_that_goes_on_is_cancelled_and_its_answers_are_collected_before_the_cloud_stops(
    cloud: Cloud,
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_run(deployment.clients("s3"), "now", [[answered("a")]])
    put_row(deployment, "now", items=1)
    stepfunctions.put("now", "RUNNING")

    def collect() -> None:
        assert not cloud.stopped
        assert stepfunctions.executions["now"]["status"] == "ABORTED"
        deployment.runs.end("now", deployment.execution_arn("now"), "CANCELLED", runs.STOPPED.message)

    monkeypatch.setattr(runs, "time", time_that_runs(collect))
    assert main(["local", "down"]) == 0 and cloud.stopped
    capsys.readouterr()
    assert main(["runs", "show", "now", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["state"], shown["reason"]) == ("CANCELLED", runs.STOPPED.message)


def test_a_run_whose_answers_cannot_be_collected_is_kept_as_far_as_it_is(
    cloud: Cloud,
    deployment: Deployment,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_run(deployment.clients("s3"), "stuck", [5])
    put_row(deployment, "stuck", items=5)
    stepfunctions.put("stuck", "RUNNING")
    monkeypatch.setattr(runs, "END_SECONDS", 0)
    assert main(["local", "down"]) == 0 and cloud.stopped
    capsys.readouterr()
    assert main(["runs", "list", "--state", "cancelled", "--json"]) == 0
    [run] = json.loads(capsys.readouterr().out)
    assert (run["id"], run["items"], run["endedAt"] is not None) == ("stuck", 5, True)


def test_runs_of_two_clouds_are_listed_together_and_have_names_of_their_own(
    stopped: Cloud, deployment: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped.stopped = False
    put_row(deployment, "wednesday")
    assert main(["runs", "list", "--json"]) == 0
    names = [run["id"] for run in json.loads(capsys.readouterr().out)]
    assert names[0] == "wednesday" and {"monday", "tuesday"} < set(names)
    (tmp_path / "a.png").write_bytes(b"content")
    assert main(["runs", "start", f"{tmp_path}/a.png", "--name", "monday", "--yes"]) == 2
    assert "monday is a run of a local cloud that was stopped" in capsys.readouterr().err


@pytest.mark.parametrize("line", ["cancel monday", "resume monday", "retry monday --failed"])
def test_a_kept_run_cannot_go_on(line: str, stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", *line.split()]) == 2
    assert "It can be read, and cannot go on." in capsys.readouterr().err


def test_commands_on_jobs_name_those_that_read_a_kept_run(stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("status", "result", "wait", "retry", "cancel", "logs"):
        assert main([command, "monday"]) == 1
        printed = capsys.readouterr().err
        assert "monday is a run of many jobs." in printed and "cosmos-batch runs show monday, and export" in printed
        assert "can only be read" in printed and "retry" not in printed
    assert main(["status"]) == 0
    assert "There are runs" in capsys.readouterr().err


def test_a_run_that_was_not_kept_is_missed(stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", "friday"]) == 1
    assert "There is no run friday here" in capsys.readouterr().err


def test_discarded_runs_are_gone(stopped: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    stopped.stopped = False
    assert main(["local", "down", "--discard"]) == 0
    assert capsys.readouterr().out == "Stopped.\n"
    assert main(["runs", "list"]) == 1
