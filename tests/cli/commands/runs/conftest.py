"""Commands on runs work with the deployment of the tests, and with a run that is half done."""

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.contract.runs import RunState, ShardRef
from cosmos_batch.state import RunRow
from cosmos_batch.state.run_rows import ItemEnd, ShardFacts
from tests.support.run_objects import PIPELINE, answered, failed, put_run

STARTED = "2026-11-20T12:00:00.000+00:00"


@pytest.fixture(autouse=True)
def found_deployment(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)


def put_row(deployment: Deployment, run: str, state: RunState = "RUNNING", items: int = 0, shards: int = 1) -> None:
    """Write the row of a run that an execution of its name feeds."""
    row = RunRow(
        id=run, state=state, pipelines=[PIPELINE], items=items, shards=shards, started_at=STARTED,
        execution_arn=deployment.execution_arn(run), max_dollars=50, origin="s3://assets/clips/",
    )  # fmt: skip
    deployment.runs.create(row)


@pytest.fixture
def half(deployment: Deployment) -> str:
    """Provide a run of which one shard has ended, one is under way with one answer, and one waits."""
    run = "half"
    put_run(deployment.clients("s3"), run, [[answered("a"), failed("b"), answered("c", reused=True)], 4, 200])
    put_row(deployment, run, items=207, shards=3)
    first, second = (ShardRef(run=run, shard=f"{number:05}", pipeline=PIPELINE, items=3 + number) for number in (0, 1))
    for ref in (first, second):
        deployment.runs.shards.feed(ref, "token", 0.1)
        deployment.runs.shards.fed(run, ref.shard, ref.items, 1.0)
    ends = {
        0: ItemEnd("succeeded", gpu_seconds=1800.0, dollars=1.5),
        1: ItemEnd("failed"),
        2: ItemEnd("succeeded", reused=True),
    }
    deployment.runs.shards.count(run, first.shard, ends)
    facts = ShardFacts(succeeded=2, failed=1, reused=1, gpu_seconds=1800.0, dollars=1.5)
    deployment.runs.end_shard(run, first.shard, facts)
    deployment.runs.shards.count(run, second.shard, {3: ItemEnd("succeeded", gpu_seconds=1800.0, dollars=1.5)})
    return run
