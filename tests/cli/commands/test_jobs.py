"""The commands `wait`, `cancel`, `retry` and `logs`, and what all commands on jobs have in common."""

import json
from datetime import UTC, datetime
from time import time
from types import SimpleNamespace

import pytest

from cosmos_batch.cli.commands import wait
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.s3 import S3Location, allowed, parse_uri
from cosmos_batch.state.item_jobs import ItemJobs
from cosmos_batch.state.job_rows import Attempt
from cosmos_batch.state.run_rows import Watcher
from cosmos_batch.state.table import Table
from tests.cli.conftest import PIPELINE, REFUSED, FakeStepFunctions, time_that_runs
from tests.cli.test_job_snapshot import run_through

pytestmark = pytest.mark.usefixtures("found_by_commands")


def test_wait_prints_each_job_as_it_ends(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    stepfunctions.put("refused", "FAILED", error="InvalidInput", cause=REFUSED.cause())
    assert main(["wait", job.job_id, "refused", "--timeout", "0"]) == 3
    printed = capsys.readouterr()
    assert printed.out == "refused FAILED\n" and job.job_id in printed.err
    monkeypatch.setattr(wait, "time", time_that_runs(lambda: run_through(deployment, job, stepfunctions)))
    assert main(["wait", job.job_id]) == 0
    assert capsys.readouterr().out == f"{job.job_id} SUCCEEDED\n"
    assert main(["wait", job.job_id, "refused"]) == 1
    assert REFUSED.message in capsys.readouterr().err


def test_cancel_stops_what_runs_and_leaves_what_has_ended(
    job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    stepfunctions.put("refused", "FAILED")
    assert main(["cancel", job.job_id, "nothing"]) == 1, "an unknown id stops nothing"
    assert stepfunctions.executions[job.job_id]["status"] == "RUNNING"
    capsys.readouterr()
    assert main(["cancel", job.job_id, "refused"]) == 0
    assert capsys.readouterr().out == f"{job.job_id} CANCELLED\nrefused FAILED already\n"
    assert stepfunctions.executions[job.job_id]["status"] == "ABORTED"
    assert main(["status", "--state", "cancelled", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert (line["id"], line["error"]["code"]) == (job.job_id, "Cancelled")


def test_retry_starts_the_same_request_without_its_deadline(
    stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4", "prompt": "何?"}
    with_deadline = json.dumps({**request, "deadline": "2026-11-20T13:00:00Z"})
    stepfunctions.put("refused", "FAILED", input=with_deadline)
    assert main(["retry", "refused"]) == 0
    [started] = stepfunctions.started
    assert json.loads(started["input"]) == request
    assert capsys.readouterr().out == f"{started['name']}\n" and started["name"] != "refused"


def test_retry_uploads_a_prompt_again_that_only_the_job_itself_may_read(
    deployment: Deployment, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    """`upload` keeps a long prompt of a sidecar in the state bucket, below the job's id."""
    kept = S3Location(deployment.state_bucket, "requests/refused/prompt.txt")
    request = {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4", "promptUri": kept.uri}
    stepfunctions.put("refused", "FAILED", input=json.dumps(request))
    assert main(["retry", "refused"]) == 1 and stepfunctions.started == []
    assert f"{kept.uri} does not exist any more." in capsys.readouterr().err
    s3 = deployment.clients("s3")
    s3.put_object(Bucket=kept.bucket, Key=kept.key, Body="Was geschieht? 何?".encode())
    assert main(["retry", "refused"]) == 0
    [started] = stepfunctions.started
    again = json.loads(started["input"])
    place = parse_uri(again.pop("promptUri"))
    assert again == {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4"}
    assert allowed(place, deployment.asset_roots)
    assert s3.get_object(Bucket=place.bucket, Key=place.key)["Body"].read().decode() == "Was geschieht? 何?"


def test_retry_starts_a_job_that_is_named_twice_once(stepfunctions: FakeStepFunctions) -> None:
    stepfunctions.put("refused", "FAILED")
    assert main(["retry", "refused", "refused"]) == 0
    assert len(stepfunctions.started) == 1


@pytest.mark.parametrize(("status", "exit_status"), [("SUCCEEDED", 2), ("RUNNING", 3)])
def test_retry_refuses_what_has_succeeded_or_runs(
    status: str, exit_status: int, stepfunctions: FakeStepFunctions
) -> None:
    stepfunctions.put("refused", "FAILED")
    stepfunctions.put("other", status)
    assert main(["retry", "refused", "other"]) == exit_status
    assert stepfunctions.started == []


def test_logs_are_the_lines_of_the_jobs_worker_about_it(
    deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put(job.job_id, "RUNNING")
    assert main(["logs", job.job_id]) == 1
    assert "No worker has taken it" in capsys.readouterr().err.replace(job.job_id, "it")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="batch-1", solo=False))
    logs = deployment.clients("logs")
    logs.create_log_group(logGroupName="/aws/batch/job")
    logs.create_log_stream(logGroupName="/aws/batch/job", logStreamName="w/default/1")
    cause = {"error": "ClientError", "code": "AccessDenied", "frames": ["s3.py:7 put"]}
    failed = {"level": "ERROR", "message": "not stored", "jobId": job.job_id, "error": "OSError", "cause": cause}
    foreign = ['{"level": null, "frames": null}', '{"cause": "abc"}']
    lines = ["Loading weights: 100%", '{"level": "INFO", "message": "loaded", "seconds": 2.5}', json.dumps(failed)]
    began = int(time()) * 1000
    events = [{"timestamp": began, "message": line} for line in (*lines, *foreign)]
    logs.put_log_events(logGroupName="/aws/batch/job", logStreamName="w/default/1", logEvents=events)
    batch = SimpleNamespace(describe_jobs=lambda **_: {"jobs": [{"container": {"logStreamName": "w/default/1"}}]})
    clients = deployment.clients
    object.__setattr__(deployment, "clients", lambda service: batch if service == "batch" else clients(service))
    assert main(["logs", job.job_id]) == 0
    at = f"{datetime.fromtimestamp(began / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    of_job = [
        f"{at}  ERROR    not stored  jobId={job.job_id}",
        "    OSError",
        "    caused by ClientError AccessDenied",
        "      s3.py:7 put",
    ]
    assert capsys.readouterr().out.splitlines() == of_job
    assert main(["logs", job.job_id, "--all"]) == 0
    of_worker = [f"{at}           Loading weights: 100%", f"{at}  INFO     loaded  seconds=2.5"]
    assert capsys.readouterr().out.splitlines()[:-2] == [*of_worker, *of_job]
    assert main(["logs", job.job_id, "--json"]) == 0
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert line["message"] == lines[2] and line["time"].endswith("+00:00")
    batch.describe_jobs = lambda **_: {"jobs": []}
    assert main(["logs", job.job_id]) == 1
    assert "a week after its end" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "result", "cancel", "retry", "wait", "logs"])
def test_a_command_on_jobs_names_those_on_runs(
    command: str, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    stepfunctions.put("monday", "RUNNING", input='{"run": {"id": "monday"}}')
    assert main([command, "monday"]) == 1
    assert "cosmos-batch runs show monday" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["status", "result", "cancel", "retry", "wait", "logs"])
def test_a_command_on_jobs_names_the_run_of_a_file(
    command: str, deployment: Deployment, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    items = ItemJobs(Table(deployment.clients("dynamodb"), deployment.state_table))
    items.watch(job.model_copy(update={"job_id": "item-1"}), Watcher("monday", "00000", 0), retry=False)
    assert main([command, "item-1"]) == 1
    assert "item-1 is a file of a run.\nAll its files: cosmos-batch runs show monday\n" in capsys.readouterr().err


def test_all_runs_of_a_file_are_named_and_which_has_paid(
    deployment: Deployment, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    items = ItemJobs(Table(deployment.clients("dynamodb"), deployment.state_table))
    for run in ("monday", "tuesday", "friday"):
        items.watch(job.model_copy(update={"job_id": "item-1"}), Watcher(run, "00000", 0), retry=False)
    assert main(["status", "item-1"]) == 1
    printed = capsys.readouterr().err
    assert "item-1 is a file of the runs monday, friday, tuesday; monday has paid for its answer.\n" in printed
    assert "cosmos-batch runs show RUN" in printed
