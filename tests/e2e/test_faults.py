"""Injected faults: whatever process is killed, there is one result and one callback."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cosmos_batch.cli.worker_failures import find_worker_failure
from cosmos_batch.state import JobRow
from tests.support.deployed_app import EIGHT_B, TWO_B, App, error_of, wait_for
from tests.support.vams_workflow import Vams

STAGES = ["received", "started", "inferred", "committed", "written", "calledBack"]
PATIENCE = 180  # seconds until a test fails that waits for what never comes; jobs that must not end take longer


def ask(app: App, key: str, script: dict[str, Any], pipeline: str = TWO_B) -> str:
    return app.start({"pipeline": pipeline, "input": f"s3://{app.assets}/{key}", "prompt": json.dumps(script)})


@pytest.fixture(scope="module", autouse=True)
def image(app: App, picture: Path) -> Iterator[None]:
    """Upload one file for all tests."""
    app.upload("p.png", picture)
    return


def one_result(app: App, arn: str) -> None:
    """Check that the execution succeeded, that the winning attempt alone wrote a document, and nothing else is left."""
    assert app.ended(arn)["status"] == "SUCCEEDED"
    row = app.row(arn)
    key = row.document.split("/", 3)[3]
    versions = app.client("s3").list_object_versions(Bucket=app.assets, Prefix=key)["Versions"]
    assert len({version["ETag"] for version in versions}) == 1, "only one attempt's document was ever at the final key"
    history = app.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    assert Counter(event["type"] for event in history)["TaskSucceeded"] == 1, "one callback"


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "group", [pytest.param(False, marks=pytest.mark.slow, id="engine process"), pytest.param(True, id="whole worker")]
)
def test_killed_at_any_stage_another_worker_finishes(app: App, tmp_path: Path, stage: str, group: bool) -> None:
    vams = Vams.of(app)
    script = {"killAt": stage, "once": str(tmp_path / "killed"), "group": group}
    theirs = vams.start("p.png", {"fileMetadata": {"COSMOS_REASON_PROMPT": json.dumps(script)}})
    assert app.ended_under_sweeps(theirs)["status"] == "SUCCEEDED"
    assert (tmp_path / "killed").exists(), "the fault was injected"
    [ours] = [
        execution
        for execution in app.executions("p.png")
        if str(tmp_path) in json.loads(execution["input"]).get("prompt", "")
    ]
    one_result(app, ours["executionArn"])
    assert app.row(ours["executionArn"]).attempts <= 1 + (stage == "started")


def test_a_job_that_kills_its_worker_while_alone_fails_after_two_attempts(app: App) -> None:
    """The settings allow two attempts, and a crash with one job in flight counts as that job's."""
    arn = ask(app, "p.png", {"die": True})
    error = error_of(app.ended(arn, 90))
    assert error["code"] == "EngineFailed"
    row = app.row(arn)
    assert row.suspect
    assert "killed" in [worker.cause for worker in app.workers().list()], "as its supervisor says"


@pytest.mark.slow
def test_of_twenty_jobs_in_flight_only_the_one_that_kills_the_worker_fails(app: App) -> None:
    neighbours = [ask(app, "p.png", {"seconds": 3, "text": f"answer {n}"}) for n in range(19)]
    poison = ask(app, "p.png", {"seconds": 1, "die": True})
    for n, arn in enumerate(neighbours):
        assert app.ended(arn, 120)["status"] == "SUCCEEDED"
        assert app.document(arn)["result"] == f"answer {n}"
        assert app.row(arn).attempts == 1, "a neighbour's death is not its own"
    assert error_of(app.ended(poison, 120))["code"] == "EngineFailed"
    assert app.row(poison).attempts == 2


def test_two_workers_on_one_job_make_one_result(app: App) -> None:
    """SQS may deliver a message twice; both deliveries run."""
    arn = ask(app, "p.png", {"seconds": 2})
    row = wait_for(
        lambda: (row := app.jobs.get(arn.rsplit(":", 1)[-1])) and row.open_attempt and row, PATIENCE, "never ran"
    )
    attempt = row.open_attempt.id
    history = app.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    [scheduled] = [event for event in history if event["type"] == "TaskScheduled"]
    body = json.loads(scheduled["taskScheduledEventDetails"]["parameters"])["MessageBody"]
    app.client("sqs").send_message(
        QueueUrl=app.queue_url(), MessageBody=body if isinstance(body, str) else json.dumps(body)
    )

    def second_run() -> bool:
        now = app.row(arn)
        return now.winner is not None or (now.open_attempt is not None and now.open_attempt.id != attempt)

    wait_for(second_run, PATIENCE, "no second run")
    one_result(app, arn)
    wait_for(lambda: app.queue_is_empty(), PATIENCE, "a message is left")


def test_terminated_a_worker_gives_back_at_once_and_spends_no_attempt(app: App) -> None:
    # A pipeline whose worker has no experience yet: it cannot hope that these will fit into its last seconds.
    arns = [ask(app, "p.png", {"seconds": 600}, EIGHT_B) for _ in range(3)]
    for arn in arns:
        wait_for(
            lambda arn=arn: (row := app.jobs.get(arn.rsplit(":", 1)[-1])) and row.open_attempt, PATIENCE, "never ran"
        )
    [worker] = app.live_workers(EIGHT_B)
    app.client("batch").terminate_job(jobId=worker, reason="Host EC2 terminated.")
    rows = wait_for(lambda: given_back(app, arns), PATIENCE, "not given back")
    for arn, row in zip(arns, rows, strict=True):
        assert row.worker == worker, "the worker gave it back itself: no other one has taken it from a dead worker"
        assert (row.attempts, row.suspect) == (0, False)
        app.client("stepfunctions").stop_execution(executionArn=arn)


def given_back(app: App, arns: list[str]) -> list[JobRow] | None:
    """Return the rows of these executions' jobs, if none of them is open."""
    rows = [app.row(arn) for arn in arns]
    return rows if all(row.open_attempt is None for row in rows) else None


def test_an_execution_stopped_by_a_person_is_dropped_by_the_worker(app: App) -> None:
    arn = ask(app, "p.png", {"seconds": 600})
    wait_for(lambda: (row := app.jobs.get(arn.rsplit(":", 1)[-1])) and row.open_attempt, PATIENCE, "never ran")
    app.client("stepfunctions").stop_execution(executionArn=arn, cause="changed my mind")
    wait_for(lambda: app.row(arn).state == "CANCELLED", PATIENCE, "the row does not say so")
    wait_for(lambda: app.queue_is_empty(), PATIENCE, "the worker holds on to it")
    assert app.row(arn).winner is None


@pytest.mark.parametrize("then", ["it passes", "the execution is stopped"])
def test_a_throttled_report_delivers_the_result_later(app: App, tmp_path: Path, then: str) -> None:
    functions, report = app.client("lambda"), app.function("report")
    vams = Vams.of(app)
    functions.put_function_concurrency(FunctionName=report, ReservedConcurrentExecutions=0)
    try:
        script = {"text": str(tmp_path)}
        theirs = vams.start("p.png", {"fileMetadata": {"COSMOS_REASON_PROMPT": json.dumps(script)}})
        ours = wait_for(lambda: executions_with(app, str(tmp_path)), 180, "not started")[0]["executionArn"]
        wait_for(lambda: throttled(app, ours) >= 3, 180, "report is not tried again")
        assert app.row(ours).state == "SUCCEEDED"
        assert app.client("stepfunctions").describe_execution(executionArn=theirs)["status"] == "RUNNING"
    finally:
        functions.delete_function_concurrency(FunctionName=report)
    if then == "the execution is stopped":
        app.client("stepfunctions").stop_execution(executionArn=ours)
    ended = app.ended(theirs, 120)
    assert ended["status"] == "SUCCEEDED"
    assert json.loads(ended["output"])["jobId"] == ours.rpartition(":")[2]
    history = app.client("stepfunctions").get_execution_history(executionArn=theirs)["events"]
    assert Counter(event["type"] for event in history)["TaskSucceeded"] == 1, "one callback"


def executions_with(app: App, text: str) -> list[dict[str, Any]]:
    return [
        execution for execution in app.executions("p.png") if text in json.loads(execution["input"]).get("prompt", "")
    ]


def throttled(app: App, arn: str) -> int:
    """Return how many calls of an execution Lambda refused."""
    history = app.client("stepfunctions").get_execution_history(executionArn=arn)["events"]
    refused = [event.get("lambdaFunctionFailedEventDetails", {}).get("error") for event in history]
    return refused.count("Lambda.TooManyRequestsException")


@pytest.fixture
def no_workers(app: App) -> None:
    """Wait until the 8B has no workers of another test."""
    wait_for(lambda: not app.live_workers(EIGHT_B), 120, "a worker that has loaded does not leave")


@pytest.mark.usefixtures("no_workers")
def test_starting_workers_that_are_killed_are_replaced_without_a_pause(app: App) -> None:
    loads = app.folder / EIGHT_B / "loads"
    loads.touch()
    arns = [ask(app, "p.png", {}, EIGHT_B) for _ in range(4)]
    for _ in range(2):
        victim = wait_for(lambda: starting_worker(app), 120, "no worker is starting")
        kill(victim)
        wait_for(lambda victim=victim: victim not in app.live_workers(EIGHT_B), 180, "it lives")
    wait_for(lambda: starting_worker(app), 120, "the second one is not replaced")
    breaker = app.workers(EIGHT_B).pipeline()
    assert (breaker.failures, breaker.retry_at, breaker.kills) == (0, None, 2)
    loads.unlink()
    assert [app.ended(arn, 120)["status"] for arn in arns] == ["SUCCEEDED"] * 4


def starting_worker(app: App) -> str | None:
    rows = app.workers(EIGHT_B).list()
    return next(
        (row.worker for row in rows if row.state == "STARTING" and row.worker in app.live_workers(EIGHT_B)), None
    )


@pytest.mark.usefixtures("no_workers")
def test_without_capacity_jobs_wait_until_there_is_some(app: App) -> None:
    """Batch cancels a worker without an instance; the local Batch does not, so this test does."""
    batch = app.client("batch")
    set_compute(app, "DISABLED")
    try:
        arns = [ask(app, "p.png", {}, EIGHT_B) for _ in range(3)]
        for _ in range(4):
            [waiting] = wait_for(lambda: app.live_workers(EIGHT_B), 180, "no worker is asked for")
            reason = "Canceled by JobStateTimeLimit action due to reason: CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
            batch.terminate_job(jobId=waiting, reason=reason)
            wait_for(lambda waiting=waiting: waiting not in app.live_workers(EIGHT_B), 180, "it was not cancelled")
        wait_for(lambda: app.live_workers(EIGHT_B), 180, "the fourth one is not replaced")
        breaker = app.workers(EIGHT_B).pipeline()
        assert (breaker.open, breaker.retry_at) == (False, None)
        assert breaker.reason is not None and "INSUFFICIENT_INSTANCE_CAPACITY" in breaker.reason.message
    finally:
        set_compute(app, "ENABLED")
    assert [app.ended(arn, 120)["status"] for arn in arns] == ["SUCCEEDED"] * 3


def set_compute(app: App, state: str) -> None:
    """Enable or disable the 8B's compute environments; a disabled one starts no workers."""
    batch = app.client("batch")
    queues = batch.describe_job_queues(jobQueues=[app.deployed(EIGHT_B).compute.job_queue])["jobQueues"]
    [queue] = queues
    for environment in queue["computeEnvironmentOrder"]:
        batch.update_compute_environment(computeEnvironment=environment["computeEnvironment"], state=state)


@pytest.mark.usefixtures("no_workers")
def test_workers_that_cannot_load_for_a_while_pause_and_their_jobs_wait(app: App) -> None:
    cannot_load = app.folder / EIGHT_B / "cannot-load"
    cannot_load.touch()
    try:
        arns = [ask(app, "p.png", {}, EIGHT_B) for _ in range(4)]

        def paused() -> bool:
            app.sweep()
            time.sleep(1)
            return app.workers(EIGHT_B).pipeline().open

        wait_for(paused, 180, "the breaker does not open")
        reason = app.workers(EIGHT_B).pipeline().reason
        assert reason is not None and "status 3" in reason.message
    finally:
        cannot_load.unlink()
    assert [app.ended_under_sweeps(arn)["status"] for arn in arns] == ["SUCCEEDED"] * 4
    assert not app.workers(EIGHT_B).pipeline().open


@pytest.mark.usefixtures("no_workers")
def test_jobs_fail_if_no_worker_can_ever_load_the_model(app: App) -> None:
    """The model's owner denies access, so after the first worker no more workers are submitted."""
    before = len(app.worker_jobs(EIGHT_B))
    (app.folder / EIGHT_B / "refuses").touch()
    try:
        arns = [ask(app, "p.png", {}, EIGHT_B) for _ in range(4)]
        trouble = wait_for(lambda: find_worker_failure(app.workers(EIGHT_B)), 180, "nothing is said while they wait")
        assert "The licence of this model was not accepted. Accept the licence." in str(trouble)
        for arn in arns:
            error = error_of(app.ended_under_sweeps(arn))
            assert (error["code"], error["remedy"]) == ("ModelUnavailable", "Accept the licence.")
        assert len(app.worker_jobs(EIGHT_B)) == before + 1
        assert app.workers(EIGHT_B).pipeline().refuses
        late = ask(app, "p.png", {}, EIGHT_B)
        assert error_of(app.ended(late, 60))["code"] == "ModelUnavailable"
        assert len(app.worker_jobs(EIGHT_B)) == before + 1
    finally:
        (app.folder / EIGHT_B / "refuses").unlink()


def test_no_process_outlives_its_worker(app: App) -> None:
    """The inner process does not outlive the Batch job."""
    arn = ask(app, "p.png", {"seconds": 3})
    wait_for(lambda: (row := app.jobs.get(arn.rsplit(":", 1)[-1])) and row.open_attempt, PATIENCE, "never ran")
    worker = app.row(arn).worker
    assert worker is not None and worker in worker_processes(app), "its processes can be seen while it works"
    assert app.ended(arn)["status"] == "SUCCEEDED"
    wait_for(lambda: worker not in app.live_workers(), PATIENCE, "the worker does not end")
    wait_for(lambda: worker not in worker_processes(app), PATIENCE, "the worker has ended, a process of it has not")
    processes = worker_processes(app)  # looked for before the live workers are listed, so that a new one is no error
    over = processes.keys() - {*app.live_workers(TWO_B), *app.live_workers(EIGHT_B)}
    wait_for(lambda: not over & worker_processes(app).keys(), PATIENCE, f"{over} are over, their processes are not")


def worker_processes(app: App) -> dict[str, list[int]]:
    """Return the ids of the processes of this cloud's workers, by Batch job id."""
    processes: dict[str, list[int]] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"cosmos_batch.worker" in command and str(app.folder).encode() in environment:
            [name] = [
                one.partition(b"=")[2].decode()
                for one in environment.split(b"\0")
                if one.startswith(b"AWS_BATCH_JOB_ID=")
            ]
            processes.setdefault(name, []).append(int(process.name))
    return processes


def test_a_worker_that_is_killed_from_outside_is_replaced(app: App) -> None:
    """This is what the loss of a host looks like: no process of the worker can report it."""
    arn = ask(app, "p.png", {"seconds": 3})
    wait_for(lambda: (row := app.jobs.get(arn.rsplit(":", 1)[-1])) and row.open_attempt, PATIENCE, "never ran")
    [worker] = app.live_workers()
    kill(worker)
    one_result(app, arn)


def kill(worker: str) -> None:
    """Kill all processes of a worker at once."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if f"AWS_BATCH_JOB_ID={worker}".encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
