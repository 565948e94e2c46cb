"""`status` and `result`."""

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from types import SimpleNamespace

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import job_snapshot, progress
from cosmos_batch.cli.commands import result
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.state.jobs import Attempt, Waiting
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.cli.test_job_snapshot import run_through

REFUSED = Error(code="InvalidInput", message="clip.mp4 has no frames.", remedy="Send a video that has some.")


@pytest.fixture(autouse=True)
def here(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)


def put_document(deployment: Deployment, job: Job) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body='{"result": "Ein Bär"}'.encode())


def in_its_sleep(happens: Callable[[], object]) -> SimpleNamespace:
    """A `time` for one module alone: threads of other tests may still use the real one."""
    return SimpleNamespace(sleep=lambda _: happens(), monotonic=monotonic)


def test_result_prints_the_document(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    assert main(["result", job.job_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}


def test_result_waits(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    put_document(deployment, job)
    monkeypatch.setattr(progress, "time", in_its_sleep(lambda: run_through(deployment, job, stepfunctions)))
    assert main(["result", "--wait", job.job_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}


def test_result_waits_for_an_upload_to_become_a_job(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_document(deployment, job)
    monkeypatch.setattr(job_snapshot, "time", in_its_sleep(lambda: run_through(deployment, job, stepfunctions)))
    assert main(["result", "--wait", job.job_id]) == 0
    monkeypatch.setattr(result, "START_SECONDS", 0)
    assert main(["result", "--wait", "nothing"]) == 1


def test_result_is_saved_with_all_files(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, tmp_path: Path
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    assert main(["result", job.job_id, "--output", f"{tmp_path}/made/"]) == 0
    [path] = (tmp_path / "made").iterdir()
    assert path.name == job.document.key and json.loads(path.read_text()) == {"result": "Ein Bär"}


def test_status_says_how_far_a_job_is(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="w", solo=True))
    deployment.jobs.note_steps(job.job_id, "a", 7, 35)
    assert main(["status", job.job_id]) == 0
    assert "RUNNING 7/35" in capsys.readouterr().out
    assert main(["status", "--json", job.job_id]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert (line["state"], line["steps"]) == ("RUNNING", "7/35")


def test_a_job_under_way_has_no_result_yet(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    assert main(["result", job.job_id]) == 3
    assert "under way: waiting for a worker" in capsys.readouterr().err


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["result", "nothing"]) == 1
    assert "no job nothing" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "TIMED_OUT"])
def test_an_error_comes_from_the_row_if_it_has_one(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    status: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stepfunctions.put(job.job_id, status)
    deployment.jobs.close(job.job_id, Result(job_id=job.job_id, error=REFUSED), cancelled=False)
    assert main(["result", job.job_id]) == 1
    assert capsys.readouterr().err == f"error: InvalidInput: {REFUSED.message}\n{REFUSED.remedy}\n"


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "TIMED_OUT"])
def test_a_job_that_succeeded_has_its_result_however_its_execution_ended(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    status: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    stepfunctions.put(job.job_id, status, error="Lambda.TooManyRequestsException")
    assert main(["result", job.job_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}


def test_a_refused_request_has_only_its_execution(
    stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put("refused", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    assert main(["result", "refused"]) == 1
    assert REFUSED.remedy in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        ("ABORTED", None, "Cancelled"),
        ("TIMED_OUT", "States.Timeout", "TimedOut"),
        ("FAILED", "NoCapacity", "NoCapacity"),
        ("FAILED", "States.Runtime", "Internal"),
    ],
)
def test_an_end_without_our_words_gets_some(
    stepfunctions: FakeStepFunctions, status: str, error: str | None, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put("other", status, error=error)
    assert main(["result", "other"]) == 1
    assert f"error: {code}: " in capsys.readouterr().err


def test_status_lists_rows_and_what_has_none(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    stepfunctions.put("refused", "FAILED")
    assert main(["status", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["id"], first["state"], first["worker"]) == (job.job_id, "SUCCEEDED", "batch-1")
    assert {"planned", "started", "inferred", "written", "calledBack"} <= set(first["stages"])
    assert (second["id"], second["state"], second["pipeline"]) == ("refused", "FAILED", PIPELINE)


def test_status_of_one_job_as_a_table(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    stepfunctions.put("other", "RUNNING")
    assert main(["status", job.job_id]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["ID", "STATE", "PIPELINE", "INPUT", "WORKER", "STAGES", "(UTC)", "WAITS", "FOR"]
    assert line.split()[:4] == [job.job_id, "PLANNED", PIPELINE, "s3://assets/clip.mp4"]


def test_status_says_what_a_job_waits_for_whose_server_is_away(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="w", solo=False))
    waiting = Waiting(reason="https://nim does not answer.", until="2026-11-12T10:20:30+00:00")
    deployment.jobs.pause(job.job_id, "a", waiting, interrupted=False)
    assert main(["status", job.job_id]) == 0
    said = "https://nim does not answer. It is asked again at 10:20:30 UTC."
    assert capsys.readouterr().out.rstrip().endswith(said)
    assert main(["result", job.job_id]) == 3
    assert said in capsys.readouterr().err, "as it is told to who waits"
    deployment.jobs.open_attempt(job.job_id, Attempt(id="b", worker="w", solo=False))
    assert main(["status", job.job_id]) == 0
    assert "https://nim" not in capsys.readouterr().out


def test_status_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "No job" in capsys.readouterr().out
