"""`run` over many files is a run: its results come out as those of jobs, also when it is interrupted or held."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_result import JobResult, save_files
from cosmos_batch.cli.output import OutputTarget
from cosmos_batch.cli.runs import run_snapshot
from cosmos_batch.cli.runs.file_run import answer_files, read_file_run
from cosmos_batch.cli.runs.run_watcher import RunWatcher
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job, OutputKey
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.contract.runs import PlannedItem, ResultLine, RunItem, RunState
from cosmos_batch.state import RunRow
from cosmos_batch.state.jobs import Attempt
from tests.cli.conftest import PIPELINE, FakeStepFunctions
from tests.support.jobs import make_job
from tests.support.runs import read_items, read_shards

BAD = Error(code="InvalidInput", message="It is no picture.", remedy="Convert it.")
QUESTION: dict[str, Any] = {"prompt": "What?", "pipeline": None, "system_prompt": None}


def job_of(item: RunItem, number: int) -> Job:
    key = f"{str(item.input).removeprefix('s3://assets/')}.json"
    return make_job(f"item-{number}").model_copy(update={"document": OutputKey(bucket="assets", key=key)})


def feed(deployment: Deployment, run: str, state: RunState) -> None:
    """Feed the run's shard and end it early: one item is answered, one has failed, the others are under way."""
    s3 = deployment.clients("s3")
    [ref], items = read_shards(s3, "state", run), read_items(s3, "state", run)
    jobs = [job_of(item, number) for number, item in enumerate(items)]
    row = RunRow(id=run, state=state, reason="No instance.", items=len(items), shards=1, pipelines=[PIPELINE],
                 started_at="2026-11-20T12:00:00Z", ended_at="2026-11-20T12:01:00Z")  # fmt: skip
    deployment.runs.create(row)
    deployment.runs.shards.feed(ref, "token", 0.1)
    deployment.runs.shards.planned(run, ref.shard, "first")
    planned = [PlannedItem(item=item, job=job) for item, job in zip(items, jobs, strict=True)]
    put_lines(s3, f"runs/{run}/planned/first/{ref.shard}.jsonl", planned)
    for job in jobs:
        deployment.jobs.create(job)
    answer_job(deployment, jobs[0])
    deployment.jobs.close("item-1", Result(job_id="item-1", error=BAD), cancelled=False)
    line = ResultLine(id=items[0].id, job_id="item-0", pipeline=PIPELINE, answer="A cube.")
    put_lines(s3, f"runs/{run}/results/{ref.shard}.jsonl", [line])


def put_lines(s3: Any, key: str, lines: list[Any]) -> None:
    s3.put_object(Bucket="state", Key=key, Body="".join(f"{line.model_dump_json()}\n" for line in lines).encode())


def answer_job(deployment: Deployment, job: Job) -> None:
    deployment.clients("s3").put_object(Bucket="assets", Key=job.document.key, Body=b'{"result": "A cube."}')
    output = Output(uri=f"s3://assets/{job.document.key}", size=21, content_type="application/json")
    deployment.jobs.open_attempt(job.job_id, Attempt(id="a", worker="w", solo=False))
    deployment.jobs.commit(job.job_id, "a", Result(job_id=job.job_id, outputs=[output]))
    deployment.jobs.finish(job.job_id, None)


def answered(deployment: Deployment, folder: Path, target: OutputTarget | None, into: list[JobResult]) -> None:
    for name in ("a.mp4", "b.mp4", "deep/c.mp4"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"content")
    for result in answer_files(
        deployment, read_file_run(deployment, [f"{folder}/"], QUESTION, False, "clips/"), target
    ):
        into.append(result)


@pytest.fixture
def ends(deployment: Deployment, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Provide how the next run ends while it is watched."""
    ending: dict[str, Any] = {"state": "SUCCEEDED", "interrupt": False}

    def watch(*_: object) -> run_snapshot.RunSnapshot:
        run = stepfunctions.started[-1]["name"]
        feed(deployment, run, ending["state"])
        if ending["interrupt"]:
            raise KeyboardInterrupt
        return run_snapshot.read_run_snapshot(deployment, run)

    monkeypatch.setattr(RunWatcher, "watch", watch)
    return ending


@pytest.mark.usefixtures("ends")
def test_every_item_that_ended_is_a_result_and_a_folder_gets_the_table(deployment: Deployment, tmp_path: Path) -> None:
    target, results = OutputTarget(tmp_path / "answers", is_folder=True, force=False), list[JobResult]()
    answered(deployment, tmp_path / "clips", target, results)
    good, bad = results
    assert (bad.error, bad.job_id) == (BAD, "item-1") and good.error is None
    assert save_files(deployment, good, target) == [target.path / "a.mp4.json"], "it has the path below the folder"
    [table] = target.path.glob("run-*.jsonl")
    assert [json.loads(line)["id"] for line in table.read_text().splitlines()] == ["a.mp4"]


def test_results_from_before_an_interrupt_are_yielded(
    deployment: Deployment, ends: dict[str, Any], tmp_path: Path
) -> None:
    results: list[JobResult] = []
    ends["interrupt"] = True
    with pytest.raises(KeyboardInterrupt):
        answered(deployment, tmp_path, None, results)
    assert [result.job_id for result in results] == ["item-0", "item-1"]


@pytest.mark.parametrize(
    ("ends_with_command", "remedy"), [(False, "no answer is paid for twice"), (True, "cosmos-batch local up")]
)
def test_a_run_that_is_held_is_an_error_after_its_results(
    deployment: Deployment, ends: dict[str, Any], tmp_path: Path, ends_with_command: bool, remedy: str
) -> None:
    """A cloud that ends with the command forgets its answers, so that the command alone does not save them."""
    results: list[JobResult] = []
    ends["state"] = "HELD"
    with pytest.raises(CliError, match="HELD: No instance") as caught:
        answered(replace(deployment, ends_with_command=ends_with_command), tmp_path, None, results)
    assert len(results) == 2 and remedy in caught.value.remedy
