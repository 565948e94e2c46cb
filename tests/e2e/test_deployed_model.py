"""When another model is deployed under a busy queue, each job is answered by the model of its last plan."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from cosmos_batch.local.deploy import deploy
from infra.synth import synthesize
from tests.support.deployed_app import TWO_B, App, configuration, wait_for


def checkpoint(folder: Path, name: str) -> str:
    """Create a folder that the scripted engine takes for a model; documents name the model by its folder."""
    (folder / name).mkdir()
    (folder / name / "config.json").write_text("{}")
    return str(folder / name)


def start(app: App, number: int, **script: Any) -> str:
    return app.start(
        {
            "pipeline": TWO_B,
            "input": f"s3://{app.assets}/p.png",
            "output": f"s3://{app.assets}/out/{number}/",
            "prompt": json.dumps({**script, "text": f"answer {number}"}),
        }
    )


@contextmanager
def busy_queue(app: App, seconds: float) -> Iterator[list[str]]:
    """Start jobs without pause, so that no worker becomes idle; yield the list of their executions."""
    arns: list[str] = []
    enough = Event()

    def submit() -> None:
        while not enough.wait(0.5):
            arns.append(start(app, len(arns), seconds=seconds))

    thread = Thread(target=submit, daemon=True)
    thread.start()
    try:
        yield arns
    finally:
        enough.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.timeout(900)  # a synthesis, a deployment and two starts of workers, on a machine that may be busy
def test_another_model_is_deployed_under_a_busy_queue(app: App, picture: Path, tmp_path: Path) -> None:
    app.upload("p.png", picture)
    with busy_queue(app, seconds=1) as arns:
        wait_for(lambda: any(row.completed for row in app.workers().list()), 120, "nobody answers")
        [old] = app.live_workers(TWO_B)
        other = configuration(app.folder, {"model": checkpoint(tmp_path, "another-model")})
        deploy(synthesize(other, tmp_path / "cdk.out"), app.cloud)
        deployed_after = len(arns)
        wait_for(lambda: len(arns) > deployed_after + 5, 120, "no more jobs")
        wait_for(lambda: ended(app, old), 240, "the old worker stays, for its queue is never empty")
    executions = [app.ended_under_sweeps(arn) for arn in arns]
    assert {execution["status"] for execution in executions} == {"SUCCEEDED"}
    documents = [app.document(arn) for arn in arns]
    assert [one["result"] for one in documents] == [f"answer {number}" for number in range(len(arns))]
    for arn, document in zip(arns, documents, strict=True):
        assert document["model"] == Path(planned_models(app, arn)[-1]).name
        assert app.row(arn).attempts == 1, "a refusal spends no attempt"
    assert {document["model"] for document in documents[deployed_after:]} == {"another-model"}
    assert documents[0]["model"] == TWO_B


def planned_models(app: App, arn: str) -> list[str]:
    """Return the model of each plan of an execution."""
    events = app.client("stepfunctions").get_execution_history(executionArn=arn, maxResults=1000)["events"]
    exits: list[dict[str, Any]] = [
        event["stateExitedEventDetails"] for event in events if "stateExitedEventDetails" in event
    ]
    planned = [json.loads(details["output"]) for details in exits if details["name"] == "Plan"]
    return [one["job"]["plannedFor"]["model"] for one in planned]


def ended(app: App, worker: str) -> bool:
    app.sweep()
    return app.workers().get(worker).state == "ENDED"


@pytest.mark.timeout(900)
def test_a_job_that_waits_while_another_model_is_deployed_is_planned_anew(
    app: App, picture: Path, tmp_path: Path
) -> None:
    """One worker takes one job at a time, so the second job waits until the first one, which is held up, ends."""
    app.upload("p.png", picture)
    one_at_a_time = {"engine": "tests.support.scripted_engine:SlowOneAtATime", "maxVCpus": 12}
    before = configuration(app.folder, {**one_at_a_time, "model": checkpoint(tmp_path, "before")})
    deploy(synthesize(before, tmp_path / "first"), app.cloud)
    go_on = tmp_path / "go-on"
    running = start(app, 100, until=str(go_on))
    wait_for(lambda: begun(app, running), 120, "the first job does not begin")
    waiting = start(app, 101)
    wait_for(lambda: planned_models(app, waiting), 120, "the second job is not planned")
    old = app.row(running).worker
    assert old is not None
    assert planned_models(app, waiting) == [str(tmp_path / "before")]
    after = configuration(app.folder, {**one_at_a_time, "model": checkpoint(tmp_path, "after")})
    deploy(synthesize(after, tmp_path / "second"), app.cloud)
    wait_for(lambda: leaves(app, old), 120, "the old worker is not told to leave")
    go_on.touch()
    assert [app.ended_under_sweeps(arn)["status"] for arn in (running, waiting)] == ["SUCCEEDED"] * 2
    assert app.document(running)["model"] == "before", "what had begun ends as it began"
    assert app.document(waiting)["model"] == "after"
    assert planned_models(app, waiting) == [str(tmp_path / "before"), str(tmp_path / "after")]
    assert app.row(waiting).attempts == 1


def begun(app: App, arn: str) -> bool:
    row = app.jobs.get(arn.rpartition(":")[2])
    return row is not None and row.open_attempt is not None


def leaves(app: App, worker: str) -> bool:
    app.sweep()
    return app.workers().get(worker).state == "DRAINING"
