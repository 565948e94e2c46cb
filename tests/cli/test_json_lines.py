"""With --json every command on jobs prints an object a line, which a script can read."""

import json
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli import json_lines
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.main import main
from cosmos_batch.contract.job import Job
from tests.cli.conftest import REFUSED, FakeStepFunctions
from tests.cli.test_job_snapshot import run_through

DOCUMENT = {"result": "Ein Bär"}


@pytest.fixture(autouse=True)
def jobs(found_by_commands: None, deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions) -> None:
    """Provide a job that has succeeded, `refused`, which has failed, and `running`."""
    run_through(deployment, job, stepfunctions)
    body = json.dumps(DOCUMENT, ensure_ascii=False).encode()
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body=body)
    stepfunctions.put("refused", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    stepfunctions.put("running", "RUNNING")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """Provide a function that runs a command and returns its exit status and the objects that it prints."""

    def run(*arguments: str) -> tuple[int, list[dict[str, Any]]]:
        status = main(list(arguments))
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def test_results_have_documents_and_errors(printed: Any, job: Job) -> None:
    status, [succeeded, failed] = printed("result", job.job_id, "refused", "--json")
    assert status == 1
    assert succeeded == {
        "id": job.job_id, "error": None, "documentUri": f"s3://assets/{job.document.key}", "document": DOCUMENT,
        "saved": [],
    }  # fmt: skip
    assert (failed["id"], failed["document"]) == ("refused", None)
    assert failed["error"] == REFUSED.model_dump(mode="json")


def test_jobs_without_a_result_have_an_object_too(printed: Any, job: Job) -> None:
    status, lines = printed("result", "running", "nothing", job.job_id, "--json")
    assert status == 3
    codes = {line["id"]: line["error"] and line["error"]["code"] for line in lines}
    assert codes == {"running": "NotEnded", "nothing": "NotRead", job.job_id: None}
    assert all(line.keys() == lines[-1].keys() for line in lines)
    status, [line] = printed("result", "running", "--json")
    assert status == 3 and "cosmos-batch result --wait running" in line["error"]["remedy"]


def test_results_name_the_files_that_were_saved(printed: Any, job: Job, tmp_path: Path) -> None:
    status, [line] = printed("result", job.job_id, "--json", "--output", f"{tmp_path}/made/")
    [path] = line["saved"]
    assert status == 0 and json.loads(Path(path).read_text()) == DOCUMENT
    Path(path).write_text("another")
    status, [line] = printed("result", job.job_id, "--json", "--output", f"{tmp_path}/made/")
    assert (status, line["error"]["code"], line["document"]) == (1, "NotSaved", DOCUMENT)


@pytest.mark.parametrize(
    ("failure", "message", "remedy"),
    [
        (CliError("d.json exists.", "--force replaces it."), "d.json exists.", "--force replaces it."),
        (OSError("No space left"), "cannot be saved: No space left", "are in S3: s3://assets/"),
    ],
)
def test_a_result_that_cannot_be_saved_has_its_remedy_in_the_object_and_on_stderr(
    failure: Exception, message: str, remedy: str, job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(json_lines, "save_files", fail)
    assert main(["result", job.job_id, "--json", "--output", f"{tmp_path}/made/"]) == 1
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["code"] == "NotSaved" and message in error["message"] and remedy in error["remedy"]
    assert printed.err == f"error: {error['message']}\n{error['remedy']}\n"


def test_wait_says_how_each_has_ended(printed: Any, job: Job) -> None:
    status, [succeeded, failed] = printed("wait", job.job_id, "refused", "--json")
    assert status == 1 and succeeded == {"id": job.job_id, "state": "SUCCEEDED", "reason": None}
    assert failed["state"] == "FAILED" and REFUSED.message in failed["reason"]


def test_cancel_and_retry_name_jobs_and_new_ids(printed: Any, job: Job, stepfunctions: FakeStepFunctions) -> None:
    assert printed("cancel", "running", job.job_id, "--json") == (
        0,
        [
            {"id": "running", "state": "CANCELLED", "already": False},
            {"id": job.job_id, "state": "SUCCEEDED", "already": True},
        ],
    )
    status, [retried] = printed("retry", "refused", "--json")
    assert (status, retried) == (0, {"id": stepfunctions.started[0]["name"], "retries": "refused"})


@pytest.mark.parametrize("other", ["--text", "--overlay"])
def test_json_is_refused_beside_options_that_print_something_else(
    job: Job, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["result", job.job_id, "--json", other]) == 2
    assert f"--json and {other} do not go together" in capsys.readouterr().err
