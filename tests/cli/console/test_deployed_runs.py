"""Runs on the console's page: the list, one of them while it goes on, and what a person does with it."""

from datetime import UTC, datetime
from itertools import count, repeat
from types import SimpleNamespace

import pytest

from cosmos_batch.cli.console import deployed_runs, live_run
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.cli.stopped_clouds.lookup import RunDeployments
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt, PipelineRow
from tests.cli.commands.runs.conftest import put_row
from tests.cli.conftest import FakeStepFunctions
from tests.cli.console.conftest import OpenRun
from tests.support.run_objects import PIPELINE, answered, failed, put_run


def test_all_runs_with_their_progress(open_run: OpenRun, deployment: Deployment, half: str) -> None:
    put_row(deployment, "later", "HELD", items=10)
    client = open_run("")
    assert client.get("/api/home").json() == {"view": "", "hasRuns": True, "isLocal": False}
    found = {run["id"]: run for run in client.get("/api/runs").json()["runs"]}
    assert set(found) == {half, "later"}
    run = found[half]
    assert (run["items"], run["succeeded"], run["failed"], run["inFlight"], run["waiting"]) == (207, 3, 1, 3, 200)
    assert (run["dollars"], run["maxDollars"], run["over"]) == (3.0, 50.0, False)
    assert client.get("/api/runs?limit=1").json()["hasMore"]
    assert client.get("/api/runs?limit=no").status_code == 400


def test_the_page_shows_the_workers_of_a_run_and_what_its_items_wait_for(
    open_run: OpenRun, deployment: Deployment, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = deployment.workers(PIPELINE)
    workers.submitted("w-1", "definition")
    workers.started("w-1")
    seconds = count(2e9, 2.0)
    monkeypatch.setattr(live_run.time, "time", lambda: next(seconds))
    client = open_run(half)
    live = client.get(f"/api/runs/{half}").json()["live"]
    assert [(worker["id"], worker["doing"]) for worker in live["workers"]] == [("w-1", "loading the model")]
    assert live["waits"] == [
        "3 items in the queue for a worker, which is loading the model.",
        "200 items not in the queue yet: after those in the queue have ended.",
    ]
    workers.ready("w-1")
    overview = client.get(f"/api/runs/{half}").json()
    assert overview["live"]["waits"][0] == "3 items in the queue or with a worker."
    assert overview["live"]["itemsPerSecond"] > 0 and overview["live"]["secondsLeft"] > 0
    assert overview["actions"] == ["cancel"]


def test_a_run_says_why_no_worker_serves_it(open_run: OpenRun, deployment: Deployment, half: str) -> None:
    error = Error(code="ModelUnavailable", message="The licence was not accepted.", remedy="Accept it.")
    deployment.workers(PIPELINE).set_breaker(PipelineRow(failures=3, open=True, reason=error))
    [blocker] = open_run(half).get(f"/api/runs/{half}").json()["live"]["blockers"]
    assert (blocker["code"], blocker["remedy"], blocker["pipeline"]) == ("ModelUnavailable", "Accept it.", PIPELINE)
    assert blocker["nextTry"]


def test_a_run_is_cancelled_and_resumed(
    open_run: OpenRun, deployment: Deployment, stepfunctions: FakeStepFunctions, half: str
) -> None:
    stepfunctions.put(half, "RUNNING")
    client = open_run(half)
    assert client.post(f"/api/runs/{half}/cancel", json={}).status_code == 204
    assert stepfunctions.executions[half]["status"] == "ABORTED"
    row = deployment.runs.get(half)
    assert row is not None and row.state == "CANCELLED" and row.execution_arn is not None
    deployment.runs.end(half, row.execution_arn, "CANCELLED", None)
    assert client.get(f"/api/runs/{half}").json()["actions"] == ["resume", "retry"]
    start = stepfunctions.start_execution

    def begin(**arguments: str) -> None:
        start(**arguments)
        deployment.runs.begin(half, deployment.execution_arn(arguments["name"]), max_dollars=80)

    stepfunctions.start_execution = begin  # type: ignore[method-assign]
    assert client.post(f"/api/runs/{half}/resume", json={"maxDollars": 80}).status_code == 204
    assert '"maxDollars": 80' in stepfunctions.started[0]["input"]
    refused = client.post(f"/api/runs/{half}/resume", json={"maxDollars": -1})
    assert refused.status_code == 400 and "maxDollars" in refused.json()["message"]


@pytest.mark.parametrize(
    ("selection", "asked"),
    [
        (None, {"b", "c"}),
        ({"query": {"errorCode": "TimedOut"}}, {"c"}),
        ({"query": {}}, {"b", "c"}),
    ],
)
def test_what_failed_is_asked_again(
    open_run: OpenRun, deployment: Deployment, stepfunctions: FakeStepFunctions, selection: object, asked: set[str]
) -> None:
    late = Error(code="TimedOut", message="It took too long.", remedy="Ask again.")
    lines = [answered("a"), failed("b"), failed("c", late)]
    s3 = deployment.clients("s3")
    put_run(s3, "run", [lines])
    items = "".join(f'{{"id": "{line.id}", "input": "{line.input}"}}\n' for line in lines)
    s3.put_object(Bucket="state", Key="runs/run/shards/00000.jsonl", Body=items)
    put_row(deployment, "run", "RUNNING", items=3)
    row = deployment.runs.get("run")
    assert row is not None and row.execution_arn is not None
    client = open_run("run")
    early = client.post("/api/runs/run/retry", json={"selection": selection})
    assert early.status_code == 409 and "has not ended" in early.json()["message"]
    deployment.runs.end("run", row.execution_arn, "SUCCEEDED", None)
    started = client.post("/api/runs/run/retry", json={"selection": selection}).json()
    assert started["items"] == len(asked)
    assert {item.id for item in stored_run(deployment, started["run"]).items_of("00000")} == asked
    assert [one["name"] for one in stepfunctions.started] == [started["run"]]


def test_nothing_that_has_an_answer_is_asked_again(open_run: OpenRun, half: str) -> None:
    client = open_run(half)
    item = next(row["id"] for row in client.get(f"/api/views/{half}/rows").json()["rows"] if row["item"] == "a")
    answer = client.post(f"/api/runs/{half}/retry", json={"selection": {"items": [item]}})
    assert (answer.status_code, answer.json()["message"]) == (409, "None of the selected items has failed.")


@pytest.mark.parametrize("path", ["half/cancel", "half/resume", "half/retry", "half/retry-size"])
def test_other_sites_cannot_act_on_runs(open_run: OpenRun, half: str, path: str) -> None:
    client = open_run(half)
    for origin in ("http://evil.example", "null", ""):
        assert client.post(f"/api/runs/{path}", json={}, headers={"origin": origin}).status_code == 403
    del client.headers["origin"]
    assert client.post(f"/api/runs/{path}", json={}).status_code == 403


def test_of_a_workers_log_the_time_of_the_item_is_read_alone(
    open_run: OpenRun, deployment: Deployment, half: str, job: Job
) -> None:
    """Item `a` of the run is the job `item-a`. Its worker had logged for an hour before, and goes on for one more."""
    deployment.jobs.create(job.model_copy(update={"job_id": "item-a"}))
    deployment.jobs.open_attempt("item-a", Attempt(id="attempt", worker="batch-1", solo=False))
    deployment.jobs.commit("item-a", "attempt", Result(job_id="item-a"))
    moment = int(datetime.now(UTC).timestamp() * 1000)
    lines = [
        (-3_600_000, "item-a before"),
        (0, '{"level": "INFO", "message": "decoded", "jobId": "item-a"}'),
        (0, '{"level": "INFO", "message": "decoded", "jobId": "item-b"}'),
        (3_600_000, "item-a after"),
    ]
    logs = deployment.clients("logs")
    logs.create_log_group(logGroupName="/aws/batch/job")
    logs.create_log_stream(logGroupName="/aws/batch/job", logStreamName="stream")
    events = [{"timestamp": moment + shift, "message": message} for shift, message in lines]
    logs.put_log_events(logGroupName="/aws/batch/job", logStreamName="stream", logEvents=events)
    batch = SimpleNamespace(describe_jobs=lambda **_: {"jobs": [{"container": {"logStreamName": "stream"}}]})
    clients = deployment.clients
    object.__setattr__(deployment, "clients", lambda service: batch if service == "batch" else clients(service))
    client = open_run(half)
    item = next(row["id"] for row in client.get(f"/api/views/{half}/rows").json()["rows"] if row["item"] == "a")
    [line] = client.get(f"/api/runs/{half}/items/{item}/log").json()["lines"]
    assert line.endswith("INFO     decoded  jobId=item-a")


def test_of_a_long_log_only_the_first_events_are_read(
    deployment: Deployment, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = count()
    events = ({"timestamp": 0, "message": f"item-a {next(read)}"} for _ in repeat(None))
    monkeypatch.setattr(deployed_runs, "worker_events", lambda *_: events)
    monkeypatch.setattr(deployed_runs, "_LOG_EVENTS", 5)
    row = SimpleNamespace(job_id="item-a", worker="batch-1", stages={})
    monkeypatch.setattr(type(deployment.jobs), "get", lambda *_: row)
    shown = deployed_runs.DeployedRuns(RunDeployments(deployment)).log(half, "item-a")
    assert len(shown) == 5 and next(read) == 5


def test_a_run_that_is_gone(open_run: OpenRun) -> None:
    answer = open_run("").get("/api/runs/none")
    assert answer.status_code == 409 and "There is no run none here." in answer.json()["message"]


def test_two_runs_side_by_side(open_run: OpenRun, deployment: Deployment) -> None:
    s3 = deployment.clients("s3")
    put_run(s3, "one", [[answered("a", "Yes."), answered("b", "It rains."), failed("c"), answered("d"), failed("f")]])
    put_run(s3, "two", [[answered("a", "Yes. "), answered("b", "It snows."), answered("c"), failed("e"), failed("f")]])
    found = open_run("").get("/api/runs/one/compared/two").json()
    counts = {
        "same": 1, "changed": 1, "is answered now": 1, "fails in both": 1, "only in the first": 1,
        "only in the second": 1,
    }  # fmt: skip
    assert found["counts"] == counts and found["agreement"] == pytest.approx(1 / 3)
    pairs = {pair["item"]: pair for pair in found["pairs"]}
    assert (pairs["b"]["first"]["answer"], pairs["b"]["second"]["answer"]) == ("It rains.", "It snows.")
    shown = pairs["b"]["second"]["row"]
    assert (shown["item"], shown["name"], shown["poster"]) == ("b", "b", None)
    assert pairs["c"]["first"]["error"] == "InvalidInput" and pairs["d"]["second"] is None
    missing = open_run("").get("/api/runs/one/compared/none")
    assert missing.status_code == 409 and "There is no run none here." in missing.json()["message"]
