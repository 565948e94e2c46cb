"""With many jobs at once, the wanted number of workers starts, and every file is answered once."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosmos_batch.contract.environment import NUDGE_SECONDS
from tests.support.deployed_app import EIGHT_B, App, configuration, running_app, wait_for
from tests.support.vams_workflow import Vams

BURST = 200  # uploads, and as many callbacks
MANY = 110  # more than a page of any list, and than a batch of any delivery
ONE_WORKER = 8  # vCPUs: those of a g6e.2xlarge


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Provide the app with room for one worker of the 2B and for many of the 8B, which drain a backlog in a minute."""
    folder = tmp_path_factory.mktemp("many")
    config = configuration(
        folder,
        entry={"maxVCpus": ONE_WORKER},
        worker={"idleSeconds": 10, "visibilityTimeoutSeconds": 30, "heartbeatSeconds": 10},
        scaling={"targetDrainSeconds": 60},
    )
    with running_app(folder, config) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two busy cores, and 600 executions
def test_concurrent_uploads_and_callbacks_are_answered_once_each(app: App, picture: Path) -> None:
    """Files with prompts are uploaded while the same number of VAMS's workflows call, at the same time."""
    vams = Vams.of(app)
    app.upload("asked/p.png", picture)
    with ThreadPoolExecutor(4) as threads:
        uploads = [threads.submit(app.upload, f"burst/{n:03}.png", picture, prompt=f"upload {n}") for n in range(BURST)]
        calls = [threads.submit(ask, vams, n) for n in range(BURST)]
        for one in uploads:
            one.result()
        theirs = [call.result() for call in calls]
    wait_for(lambda: ended(app, app.machine) >= 2 * BURST, 1200, "not all have ended")
    wait_for(lambda: ended(app, vams.machine) >= BURST, 300, "not all of VAMS's workflows have been called back")
    assert statuses(app, app.machine) == {"SUCCEEDED": 2 * BURST}, failures(app)
    assert statuses(app, vams.machine) == {"SUCCEEDED": BURST}

    beside = [key for key in app.keys("burst/") if key.endswith(".json")]
    assert Counter(key[len("burst/") :][:3] for key in beside) == {f"{n:03}": 1 for n in range(BURST)}
    for number, arn in enumerate(theirs):
        [document] = [key for key in app.keys(vams.output_of(arn)) if key.endswith(".json")]
        body = app.client("s3").get_object(Bucket=app.assets, Key=document)["Body"].read()
        assert json.loads(body)["result"] == f"callback {number}", "each workflow was called back for its own job"
    versions = app.client("s3").get_paginator("list_object_versions").paginate(Bucket=app.assets)
    written = Counter(
        version["Key"] for page in versions for version in page["Versions"] if version["Key"].endswith(".json")
    )
    assert set(written.values()) == {1}, "none was written twice"
    assert callbacks(app, "Report") == BURST, "VAMS was told once of each"
    assert callbacks(app, "Worker") == 2 * BURST, "and so was our own state machine"
    assert len(app.worker_jobs()) == 1


def ask(vams: Vams, number: int) -> str:
    """Start an execution of VAMS on one file and return it."""
    return vams.start("asked/p.png", {"fileMetadata": {"COSMOS_REASON_PROMPT": f"callback {number}"}})


def callbacks(app: App, role: str) -> int:
    """Return how often functions or workers with this kind of role have called SendTaskSuccess."""
    return sum(
        call["count"] for call in app.cloud.calls() if call["operation"] == "SendTaskSuccess" and role in call["role"]
    )


def statuses(app: App, machine: str) -> Counter[str]:
    pages = app.client("stepfunctions").get_paginator("list_executions").paginate(stateMachineArn=machine)
    return Counter(execution["status"] for page in pages for execution in page["executions"])


def failures(app: App) -> Counter[str]:
    """Return the reasons of failed executions, each with its number."""
    arns = [execution["executionArn"] for execution in app.executions() if execution["status"] == "FAILED"]
    ends = [app.client("stepfunctions").describe_execution(executionArn=arn) for arn in arns]
    return Counter(f"{one.get('error')}: {one.get('cause')}" for one in ends)


def ended(app: App, machine: str) -> int:
    time.sleep(2)  # a list of all of them is work for the cloud, which has enough
    return sum(count for status, count in statuses(app, machine).items() if status != "RUNNING")


@pytest.mark.slow
def test_concurrent_plans_start_exactly_the_wanted_workers(app: App, picture: Path) -> None:
    """At 2 s per item and 60 s to drain, 110 waiting items want 4 workers: ceil(110 * 2 / 60)."""
    app.workers(EIGHT_B).measured(seconds_per_unit=2.0, cold_start_seconds=1.0)
    app.upload("plans/p.png", picture)
    request = {"pipeline": EIGHT_B, "input": f"s3://{app.assets}/plans/p.png", "prompt": json.dumps({"seconds": 60})}
    with ThreadPoolExecutor(8) as threads:
        arns = list(threads.map(lambda n: app.start({**request, "output": f"s3://{app.assets}/{n}/"}), range(MANY)))
    wait_for(lambda: all(app.jobs.get(arn.rsplit(":", 1)[-1]) for arn in arns), 120, "not all were planned")
    app.sweep()
    wait_for(lambda: len(app.worker_jobs(EIGHT_B)) >= 4, 180, "too few workers were started")
    app.sweep()
    time.sleep(2 * NUDGE_SECONDS)
    assert len(app.worker_jobs(EIGHT_B)) == 4
    for arn in arns:
        app.client("stepfunctions").stop_execution(executionArn=arn)
