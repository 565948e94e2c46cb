"""Many at once: as many workers as are wanted, every file answered, none twice."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cosmos_batch.contract.environment import NUDGE_SECONDS
from tests.e2e.harness import EIGHT_B, App, configuration, running_app, wait_for

MANY = 110  # more than a page of any list, and than a batch of any delivery
ONE_WORKER = 12  # vCPUs: a quarter of a g6e.12xlarge


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The 2B has room for one worker, the 8B for many, whose backlog should be gone in a minute."""
    folder = tmp_path_factory.mktemp("many")
    config = configuration(
        folder,
        entry={"maxVCpus": ONE_WORKER},
        worker={"idleSeconds": 10, "visibilityTimeoutSeconds": 30, "heartbeatSeconds": 10},
        scaling={"targetDrainSeconds": 60},
    )
    with running_app(folder, config) as running:
        yield running


def test_as_many_uploads_are_as_many_results(app: App, picture: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda n: app.upload(f"burst/{n:03}.png", picture, prompt=f"{n}"), range(MANY)))
    wait_for(lambda: ended(app) >= MANY, 180, "not all have ended")
    statuses = Counter(one["status"] for one in app.executions())
    assert statuses == {"SUCCEEDED": MANY}
    documents = [key for key in app.keys("burst/") if key.endswith(".json")]
    assert len(documents) == MANY
    assert {key[len("burst/") :][:3] for key in documents} == {f"{n:03}" for n in range(MANY)}
    versions = app.client("s3").get_paginator("list_object_versions").paginate(Bucket=app.assets, Prefix="burst/")
    written = Counter(one["Key"] for page in versions for one in page["Versions"] if one["Key"].endswith(".json"))
    assert set(written.values()) == {1}, "none was written twice"
    assert len(app.worker_jobs()) == 1


def ended(app: App) -> int:
    return sum(one["status"] != "RUNNING" for one in app.executions())


def test_as_many_plans_start_exactly_the_wanted_workers(app: App, picture: Path) -> None:
    """At 2 s an item and 60 s to drain, 110 waiting items want 4 workers: ceil(110 * 2 / 60)."""
    app.workers(EIGHT_B).measured(seconds_per_item=2.0, cold_start_seconds=1.0)
    app.upload("plans/p.png", picture)
    request = {"pipeline": EIGHT_B, "input": f"s3://{app.assets}/plans/p.png", "prompt": json.dumps({"seconds": 60})}
    with ThreadPoolExecutor(8) as threads:
        arns = list(threads.map(lambda n: app.start({**request, "output": f"s3://{app.assets}/{n}/"}), range(MANY)))
    wait_for(lambda: all(app.jobs.get(arn.rsplit(":", 1)[-1]) for arn in arns), 120, "not all were planned")
    app.sweep()
    wait_for(lambda: len(app.worker_jobs(EIGHT_B)) >= 4, 60, "too few workers were started")
    app.sweep()
    time.sleep(2 * NUDGE_SECONDS)
    assert len(app.worker_jobs(EIGHT_B)) == 4
    for arn in arns:
        app.client("stepfunctions").stop_execution(executionArn=arn)
