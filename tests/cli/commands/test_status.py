"""The command `status`: the list of jobs and its filters, and all that is known of one job."""

import json
import shlex

import pytest
from rich.cells import cell_len

from cosmos_batch.cli import job_snapshot
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.state.job_rows import Attempt, Waiting
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import PIPELINE, REFUSED, STARTED, FakeStepFunctions
from tests.cli.test_job_snapshot import run_through

pytestmark = pytest.mark.usefixtures("found_by_commands")


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


def test_status_lists_jobs_with_and_without_a_row(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    stepfunctions.put("refused", "FAILED")
    assert main(["status", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["id"], first["state"], first["worker"]) == (job.job_id, "SUCCEEDED", "batch-1")
    assert {"planned", "started", "inferred", "written", "calledBack"} <= set(first["stages"])
    assert (second["id"], second["state"], second["pipeline"]) == ("refused", "FAILED", PIPELINE)


def test_status_has_the_prompt_and_options_of_a_job(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = {"prompt": "何?", "parameters": {"fps": 2}}
    request = {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4", "caller": "vams", **shown}
    for name, status in ((job.job_id, "RUNNING"), ("refused", "FAILED")):
        stepfunctions.put(name, status, input=json.dumps(request))
        assert main(["status", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)[0]["request"] == shown
        assert main(["status", name]) == 0
        assert '  request       {"prompt": "何?", "parameters": {"fps": 2}}\n' in capsys.readouterr().out


def test_status_says_that_there_is_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    assert "No job" in capsys.readouterr().out


def test_status_fits_a_hundred_columns_and_gives_the_reason_of_a_failure(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    request = json.dumps({"pipeline": PIPELINE, "input": f"s3://assets/{'long/' * 40}clip.mp4"})
    stepfunctions.put(f"{PIPELINE}-{'0' * 32}", "FAILED", input=request, error="InvalidInput", cause=REFUSED.cause())
    stepfunctions.put(job.job_id, "RUNNING")
    assert main(["status"]) == 0
    head, refused, reason, waiting, worker = capsys.readouterr().out.splitlines()
    assert head.split() == ["ID", "STATE", "AGE", "INPUT"]
    assert max(len(line) for line in (head, refused, reason, waiting, worker)) <= 100
    assert refused.endswith("long/clip.mp4") and "FAILED" in refused
    assert reason.strip() == f"InvalidInput: {REFUSED.message} {REFUSED.remedy}"
    assert waiting.split()[:2] == [job.job_id, "PLANNED"]


def test_status_fits_its_columns_where_characters_take_two_of_them(
    stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    request = json.dumps({"pipeline": PIPELINE, "input": f"s3://assets/{'倉庫の動画' * 20}.mp4"})
    stepfunctions.put("job-1", "SUCCEEDED", input=request)
    assert main(["status"]) == 0
    line = capsys.readouterr().out.splitlines()[1]
    assert line.endswith("倉庫の動画.mp4") and 98 <= cell_len(line) <= 100


def test_a_reason_fits_three_lines_of_the_table_where_characters_take_two_columns(
    stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    error = Error(code="InvalidInput", message="倉庫の動画.mp4 " * 40, remedy="Send another.")
    stepfunctions.put("job-1", "FAILED", error="InvalidInput", cause=error.cause())
    assert main(["status"]) == 0
    _, _, *reason = capsys.readouterr().out.splitlines()
    assert len(reason) == 3 and reason[-1].endswith(" [...]")
    assert all(line.startswith("    ") and 80 <= cell_len(line) <= 100 for line in reason)


def test_status_says_what_jobs_wait_for_while_no_worker_serves(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    def reason() -> str:
        assert main(["status"]) == 0
        return capsys.readouterr().out.splitlines()[-1].strip()

    stepfunctions.put(job.job_id, "RUNNING")
    workers = deployment.workers(PIPELINE)
    assert reason() == "waiting for a worker to be started"
    workers.submitted("batch-1", "definition")
    assert reason() == "waiting for a machine for the worker"
    workers.started("batch-1")
    assert reason() == "worker loading the model"
    workers.ready("batch-1")
    assert reason() == "waiting in the queue"


def test_status_of_a_job_says_that_its_worker_loads(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    deployment.workers(PIPELINE).submitted("batch-1", "definition")
    deployment.workers(PIPELINE).started("batch-1")
    monkeypatch.setattr(job_snapshot.JobObserver, "_batch_job", lambda *_: {})
    monkeypatch.setattr(job_snapshot.JobObserver, "_last_line", lambda *_: "model.safetensors:  40 %")
    assert main(["status", job.job_id]) == 0
    assert "waits for     loading the model: model.safetensors:  40 %" in capsys.readouterr().out


def test_status_of_a_named_job_has_all_that_is_known(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    run_through(deployment, job, stepfunctions)
    assert main(["status", job.job_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    fields = dict(line.strip().split("  ", 1) for line in lines[1:] if "stages" not in line)
    assert lines[0] == job.job_id
    assert {name: text.strip() for name, text in fields.items() if name in ("state", "attempts", "worker")} == {
        "state": "SUCCEEDED",
        "attempts": "1",
        "worker": "batch-1",
    }
    [stages] = [line for line in lines if "stages" in line]
    names = [stage.split()[0] for stage in stages.partition(")")[2].split(",")]
    assert names.index("planned") < names.index("started") < names.index("written") <= names.index("calledBack")


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ("", ["third", "second", "first"]),
        ("--limit 2", ["third", "second"]),
        ("--limit 2 --page 2", ["first"]),
        ("--state failed", ["second"]),
        ("--state active", ["third"]),
        ("--state FAILED --state cancelled", ["second", "first"]),
        ("--pipeline cosmos-reason2-8b", ["first"]),
        ("--text NO.FRAMES", []),
        ("--text 'no frames'", ["second"]),
        ("--text other.mp4", ["first"]),
        ("--since 2026-11-20T12:00", ["third", "second"]),
    ],
)
def test_status_lists_the_jobs_that_its_options_select(
    options: str, ids: list[str], stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    other = json.dumps({"pipeline": "cosmos-reason2-8b", "input": "s3://assets/other.mp4"})
    stepfunctions.put("third", "RUNNING")
    stepfunctions.put("second", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    stepfunctions.put("first", "ABORTED", input=other, startDate=STARTED.replace(hour=1))
    assert main(["status", "--json", *shlex.split(options)]) == 0
    assert [line["id"] for line in json.loads(capsys.readouterr().out)] == ids


@pytest.mark.parametrize("line", ["status --since yesterday", "status --state gone", "status ID --state failed"])
def test_status_refuses_filters_that_mean_nothing(line: str) -> None:
    assert main(line.split()) == 2


def test_status_says_that_there_are_more(stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        stepfunctions.put(f"job-{number}", "RUNNING")
    assert main(["status", "--limit", "2"]) == 0
    assert "--page 2" in capsys.readouterr().err
    assert main(["status", "--limit", "2", "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_status_and_result_say_that_a_server_is_away(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="w", solo=False))
    waiting = Waiting(reason="https://nim does not answer.", until="2026-11-12T10:20:30+00:00")
    deployment.jobs.pause(job.job_id, "a", waiting, interrupted=False)
    reason = "https://nim does not answer. It is asked again at 10:20:30 UTC."
    for line in (["status"], ["status", job.job_id]):
        assert main(line) == 0
        assert reason in capsys.readouterr().out
    assert main(["result", job.job_id]) == 3
    assert reason in capsys.readouterr().err
    deployment.jobs.open_attempt(job.job_id, Attempt(id="b", worker="w", solo=False))
    assert main(["status", job.job_id]) == 0
    assert "https://nim" not in capsys.readouterr().out


def test_status_names_the_list_of_runs_where_there_are_only_runs(
    deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    put_row(deployment, "monday")
    assert main(["status"]) == 0
    assert "cosmos-batch runs list" in capsys.readouterr().err


def test_runs_are_not_listed_among_jobs(stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]) -> None:
    stepfunctions.put("monday", "RUNNING", input='{"run": {"id": "monday"}}')
    assert main(["status", "--json"]) == 0
    assert "monday" not in capsys.readouterr().out
