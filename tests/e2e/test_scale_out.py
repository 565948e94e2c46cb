"""Many at once: as many workers as are wanted, every file answered, none twice."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.harness import TWO_B, App, configuration, running_app, wait_for

MANY = 200


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """As the others', but one worker drains 60 items in the time that a backlog may take."""
    folder = tmp_path_factory.mktemp("many")
    config = configuration(folder, scaling={"targetDrainSeconds": 60})
    with running_app(folder, config) as running:
        yield running


def test_two_hundred_uploads_are_two_hundred_results(app: App, picture: Path) -> None:
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


def ended(app: App) -> int:
    return sum(one["status"] != "RUNNING" for one in app.executions())


def test_two_hundred_plans_start_exactly_the_wanted_workers(app: App, picture: Path) -> None:
    """At 1 s an item and 60 s to drain, 200 waiting items want 4 workers: ceil(200 * 1 / 60)."""
    wait_for(lambda: not app.live_workers(), 60, "the worker of the burst did not leave")
    app.workers().measured(seconds_per_item=1.0, cold_start_seconds=1.0)
    before = len(app.worker_jobs())
    app.upload("plans/p.png", picture)
    request = {"pipeline": TWO_B, "input": f"s3://{app.assets}/plans/p.png", "prompt": json.dumps({"seconds": 20})}
    with ThreadPoolExecutor(8) as threads:
        arns = list(threads.map(lambda _: app.start(request), range(MANY)))
    wait_for(lambda: len(app.worker_jobs()) - before >= 4, 60, "too few workers were started")
    for arn in arns:
        app.client("stepfunctions").stop_execution(executionArn=arn)
    assert len(app.worker_jobs()) - before == 4
