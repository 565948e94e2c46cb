"""The commands `status`, `result`, `wait`, `cancel`, `retry` and `logs`, as a person types them."""

import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, time
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli import job_snapshot, progress
from cosmos_batch.cli.commands import result, wait
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_result import saved_name
from cosmos_batch.cli.main import main
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.state.item_jobs import ItemJobs
from cosmos_batch.state.job_rows import Attempt, Waiting
from cosmos_batch.state.run_rows import Watcher
from cosmos_batch.state.table import Table
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import PIPELINE, STARTED, FakeStepFunctions
from tests.cli.test_job_snapshot import run_through

REFUSED = Error(code="InvalidInput", message="clip.mp4 has no frames.", remedy="Send a video that has some.")


@pytest.fixture(autouse=True)
def here(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)


def put_document(deployment: Deployment, job: Job) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body='{"result": "Ein Bär"}'.encode())


def in_its_sleep(happens: Callable[[], object]) -> SimpleNamespace:
    """Return a replacement of `time` for one module: threads of other tests may still use the real one."""
    return SimpleNamespace(sleep=lambda _: happens(), monotonic=monotonic)


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


def test_inputs_of_one_name_come_out_under_mirrored_paths() -> None:
    first = "s3://assets/uploads/20261120-120000-0123abcd/ep1/cam_CosmosReason_20261120-120001.json"
    second = "s3://videos/inbox/uploads/20261120-120000-0123abcd/ep2/cam_CosmosReason_20261120-120001.json"
    assert saved_name(first) == "ep1/cam_CosmosReason_20261120-120001.json"
    assert saved_name(second) == "ep2/cam_CosmosReason_20261120-120001.json"
    assert saved_name("s3://videos/robots/../ep3/cam.json") == "robots/%2E%2E/ep3/cam.json"


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
    monkeypatch.setattr(wait, "time", in_its_sleep(lambda: run_through(deployment, job, stepfunctions)))
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
