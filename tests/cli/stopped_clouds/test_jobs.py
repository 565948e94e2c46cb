"""`local down` keeps jobs and what they left, and `status` and `result` find them afterwards."""

import json
from pathlib import Path

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_summary import JobSummary
from cosmos_batch.cli.main import main
from cosmos_batch.cli.stopped_clouds import jobs as stopped_jobs
from cosmos_batch.cli.stopped_clouds.jobs import kept_job_ended
from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt
from tests.cli.conftest import PIPELINE, FakeStepFunctions, put_document, time_that_runs
from tests.cli.stopped_clouds.conftest import ENDPOINT, Cloud
from tests.cli.test_job_snapshot import run_through


@pytest.fixture(autouse=True)
def jobs(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions) -> None:
    """Provide a job that has succeeded and one that runs."""
    run_through(deployment, job, stepfunctions)
    put_document(deployment, job)
    stepfunctions.put("running", "RUNNING")


def test_jobs_and_documents_outlive_their_cloud(
    cloud: Cloud, job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 0 and cloud.stopped
    assert capsys.readouterr().out == "Stopped.\nIts jobs are kept (2): cosmos-batch status\n"
    assert main(["status", "--json"]) == 0
    jobs = {line["id"]: line for line in json.loads(capsys.readouterr().out)}
    assert {name: line["state"] for name, line in jobs.items()} == {job.job_id: "SUCCEEDED", "running": "CANCELLED"}
    assert main(["status", job.job_id]) == 0
    assert job.document.key in capsys.readouterr().out
    assert main(["result", job.job_id]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}
    assert main(["result", job.job_id, "--output", f"{tmp_path}/saved/"]) == 0
    assert json.loads((tmp_path / "saved" / job.document.key).read_text()) == {"result": "Ein Bär"}
    capsys.readouterr()
    assert main(["wait", job.job_id, "running"]) == 1
    assert capsys.readouterr().out == f"{job.job_id} SUCCEEDED\nrunning CANCELLED\n"
    assert main(["wait", "nothing"]) == 1
    assert "There is no job nothing here" in capsys.readouterr().err
    assert main(["result", "running"]) == 1
    printed = capsys.readouterr().err
    assert "stopped before the job had ended" in printed and "cosmos-batch submit clip.mp4\n" in printed
    assert main(["result", "nothing"]) == 1
    assert "There is no job nothing here" in capsys.readouterr().err


def test_an_answer_that_is_committed_while_the_cloud_is_stopped_is_kept(
    cloud: Cloud, deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    late = job.model_copy(update={"job_id": "late", "document": OutputKey(bucket="assets", key="late.json")})
    deployment.jobs.create(late)
    stepfunctions.put("late", "RUNNING")
    deployment.jobs.open_attempt("late", Attempt(id="a", worker="batch-1", solo=False))

    def commit() -> None:
        assert stepfunctions.executions["late"]["status"] == "ABORTED", "no job goes on without end"
        put_document(deployment, late)
        deployment.jobs.commit("late", "a", Result(job_id="late"))
        deployment.jobs.finish("late", None)

    monkeypatch.setattr(stopped_jobs, "time", time_that_runs(commit))
    assert main(["local", "down"]) == 0 and cloud.stopped
    capsys.readouterr()
    assert main(["result", "late"]) == 0
    assert json.loads(capsys.readouterr().out) == {"result": "Ein Bär"}


@pytest.fixture
def without_stacks(cloud: Cloud, deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cloud have the tables and buckets of a deployment, and no stacks."""

    def find(_: object) -> Deployment:
        raise CliError("Cosmos Batch is not deployed here.", "Deploy it first.")

    monkeypatch.setattr(deployments, "find", find)
    monkeypatch.setattr(cloud, "client", deployment.clients)


def test_a_cloud_whose_stacks_were_removed_runs_on_with_its_jobs(
    cloud: Cloud, without_stacks: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 1 and not cloud.stopped
    printed = capsys.readouterr().err
    assert "stacks of the local cloud were removed" in printed and "cosmos-batch local down --discard" in printed
    assert main(["local", "down", "--discard"]) == 0 and cloud.stopped


def test_a_cloud_without_stacks_that_never_had_a_job_is_stopped(
    cloud: Cloud, deployment: Deployment, without_stacks: None
) -> None:
    dynamodb = deployment.clients("dynamodb")
    for item in dynamodb.scan(TableName="state")["Items"]:
        if item["sk"]["S"] == "job":
            dynamodb.delete_item(TableName="state", Key={"pk": item["pk"], "sk": item["sk"]})
    assert dynamodb.scan(TableName="state")["Items"], "rows of workers are left"
    assert main(["local", "down"]) == 0 and cloud.stopped


@pytest.mark.parametrize("command", ["retry", "cancel", "logs"])
def test_a_kept_job_can_only_be_read(
    command: str, cloud: Cloud, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 0
    for stopped in (True, False):
        cloud.stopped = stopped
        stepfunctions.executions.clear()
        for job_id, remedy in ((job.job_id, f"cosmos-batch result {job.job_id}"), ("running", "submit clip.mp4")):
            assert main([command, job_id]) == 2
            printed = capsys.readouterr().err
            assert f"{job_id} is a job of a local cloud that was stopped: it can only be read" in printed
            assert printed.endswith(f"{remedy}\n")
        assert main([command, "nothing"]) == 1
        assert "There is no job nothing here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pipeline", "file", "command"),
    [
        (PIPELINE, "s3://assets/uploads/20261120-120000-00000000/my clip.mp4", "submit 'my clip.mp4'"),
        (PIPELINE, "", "submit FILE"),
        ("cosmos3-nano", "s3://assets/first.png", "generate --submit first.png"),
        ("cosmos3-nano", "", "generate --submit --prompt TEXT"),
    ],
)
def test_the_command_that_starts_a_kept_job_again_fits_it(pipeline: str, file: str, command: str) -> None:
    kept = JobSummary("job-2", "FAILED", pipeline, file, "2026-11-20T12:00:00+00:00", {})
    assert kept_job_ended(kept).remedy == f"Start it again: cosmos-batch {command}"


def test_a_kept_job_that_asked_something_says_where_its_prompt_is(
    cloud: Cloud, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    request = {"pipeline": PIPELINE, "input": "s3://assets/clip.mp4", "prompt": "何?", "parameters": {"fps": 2}}
    stepfunctions.put("asks", "RUNNING", input=json.dumps(request))
    assert main(["local", "down"]) == 0
    assert main(["retry", "asks"]) == 2
    printed = capsys.readouterr().err
    shows = "with the prompt and options that `cosmos-batch status asks` shows: cosmos-batch submit clip.mp4"
    assert f"Start it again, {shows}\n" in printed
    assert main(["status", "asks"]) == 0
    assert '{"prompt": "何?", "parameters": {"fps": 2}}' in capsys.readouterr().out


def test_kept_jobs_are_selected_by_times_of_any_time_zone(
    cloud: Cloud, job: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 0
    for since, count in (("2026-11-20T13:30+02:00", 2), ("2026-11-20T11:30-02:00", 0)):
        capsys.readouterr()
        assert main(["status", "--json", "--since", since]) == 0
        assert len(json.loads(capsys.readouterr().out)) == count


def test_jobs_of_two_clouds_are_listed_together(
    cloud: Cloud, job: Job, stepfunctions: FakeStepFunctions, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 0
    cloud.stopped = False
    stepfunctions.executions.clear()
    stepfunctions.put("new", "RUNNING")
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    assert [line["id"] for line in json.loads(capsys.readouterr().out)][:1] == ["new"]
    assert main(["status", "--json", "--state", "succeeded"]) == 0
    assert [line["id"] for line in json.loads(capsys.readouterr().out)] == [job.job_id]


def test_discarded_jobs_are_gone(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["local", "down"]) == 0
    cloud.stopped = False
    assert main(["local", "down", "--discard"]) == 0
    assert capsys.readouterr().out.endswith("Stopped.\n")
    assert main(["status"]) == 1
    assert ENDPOINT in capsys.readouterr().err


def test_jobs_of_a_stopped_local_cloud_are_not_listed_for_aws(
    cloud: Cloud, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["local", "down"]) == 0
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert main(["status"]) == 1
    cloud.stopped = False
    stepfunctions.executions.clear()
    capsys.readouterr()
    assert main(["status", "--json", "--state", "cancelled"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_cloud_whose_jobs_cannot_be_kept_runs_on(
    cloud: Cloud, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept-jobs").write_text("a file where the folder should be")
    assert main(["local", "down"]) == 1 and not cloud.stopped
    printed = capsys.readouterr().err
    assert "all that earlier clouds have left: cosmos-batch local down --discard" in printed
    assert main(["local", "down", "--discard"]) == 0 and cloud.stopped


def test_a_document_that_was_deleted_keeps_no_other_job_from_being_kept(
    cloud: Cloud, job: Job, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.clients("s3").delete_object(Bucket="assets", Key=job.document.key)
    assert main(["local", "down"]) == 0 and cloud.stopped
    assert main(["status", "--json"]) == 0
    captured = capsys.readouterr().out
    assert job.job_id in captured and '"running"' in captured
    assert main(["result", job.job_id]) == 1
    assert f"s3://assets/{job.document.key} does not exist any more.\nRestore it" in capsys.readouterr().err
