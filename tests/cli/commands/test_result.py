"""The command `result`: it prints or saves what a job has answered, or says why there is no answer."""

import json
from pathlib import Path

import pytest

from cosmos_batch.cli import job_snapshot, progress
from cosmos_batch.cli.commands import result
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from tests.cli.conftest import REFUSED, FakeStepFunctions, put_document, time_that_runs
from tests.cli.test_job_snapshot import run_through

pytestmark = pytest.mark.usefixtures("found_by_commands")


def test_result_prints_the_document(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    assert main(["result", job.job_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}


def test_result_waits_until_the_job_has_ended(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    put_document(deployment, job)
    monkeypatch.setattr(progress, "time", time_that_runs(lambda: run_through(deployment, job, stepfunctions)))
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
    monkeypatch.setattr(job_snapshot, "time", time_that_runs(lambda: run_through(deployment, job, stepfunctions)))
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


def test_a_job_under_way_has_no_result_yet(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    assert main(["result", job.job_id]) == 3
    printed = capsys.readouterr().err
    assert "under way: waiting for a worker" in printed and f"cosmos-batch result --wait {job.job_id}" in printed


def test_an_unknown_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["result", "nothing"]) == 1
    assert "no job nothing" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["FAILED", "ABORTED", "TIMED_OUT"])
def test_an_error_comes_from_the_row_if_the_row_has_an_error(
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
def test_an_end_without_our_error_gets_a_message_and_a_remedy(
    stepfunctions: FakeStepFunctions, status: str, error: str | None, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put("other", status, error=error)
    assert main(["result", "other"]) == 1
    assert f"error: {code}: " in capsys.readouterr().err


def test_result_of_several_jobs_goes_on_after_a_failure(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    stepfunctions.put("refused", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    stepfunctions.put("running", "RUNNING")
    assert main(["result", "refused", "running", "nothing", job.job_id]) == 3
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"result": "Ein Bär"}
    assert all(part in printed.err for part in (REFUSED.message, "running is still under way", "no job nothing"))


@pytest.mark.parametrize("options", [[], ["--text"], ["--json"], ["--output", "saved/"]])
def test_a_document_that_was_deleted_is_named_and_keeps_no_other_result_back(
    options: list[str],
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run_through(deployment, job, stepfunctions)
    stepfunctions.put("refused", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    assert main(["result", job.job_id, "refused", *options]) == 1
    captured = capsys.readouterr()
    assert f"{job.document.key} does not exist any more.\nRestore it, or start the request again." in captured.err
    assert REFUSED.message in captured.err + captured.out


def test_the_answer_alone_is_printed(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    assert main(["result", job.job_id, "--text"]) == 0
    assert capsys.readouterr().out == "Ein Bär\n"
    assert main(["result", job.job_id, "--text", "--output", "x/"]) == 2


def test_a_saved_file_is_kept_unless_forced_and_its_answer_printed(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    line = ["result", job.job_id, "--output", str(tmp_path)]
    saved = tmp_path / job.document.key
    for _ in range(2):
        assert main(line) == 0, "the same content is no conflict"
        assert capsys.readouterr().out == f"{saved}\n"
    saved.write_text("mine")
    assert main(line) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"result": "Ein Bär"} and "--force" in printed.err
    assert saved.read_text() == "mine"
    assert main([*line, "--force"]) == 0
    assert json.loads(saved.read_text()) == {"result": "Ein Bär"}


@pytest.mark.parametrize("output", ["answer.json", "there/answer.json"])
def test_an_existing_output_file_is_refused_before_anything_is_sent(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(output).parent.mkdir(exist_ok=True)
    Path(output).write_text("mine")
    assert main(["result", "nothing", "--output", output]) == 2
    assert f"{output} exists" in capsys.readouterr().err


def test_several_results_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["result", "a", "b", "--output", "answers"]) == 2
    assert "--output answers/" in capsys.readouterr().err
