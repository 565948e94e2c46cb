"""`cosmos-batch models update` moves recorded tags and branches to their present commits, and nothing else."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cosmos_batch.cli.commands import models
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.state import revisions
from tests.cli.conftest import PIPELINE
from tests.support.model_hub import Hub

MODEL, OTHER = "nvidia/Cosmos-Reason2-2B", "cosmos-reason2-8b"


@pytest.fixture
def hub(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr(models.deployments, "find", lambda: deployment)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with Hub() as hub:
        hub.direct_this_process(monkeypatch, tmp_path)
        hub.add(MODEL, tmp_path / "model")
        yield hub


def update(*pipelines: str) -> int:
    return main(["models", "update", *pipelines])


def test_recorded_branches_move_to_the_present_commit_and_the_command_prints_it(
    hub: Hub, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    new = hub.repositories[MODEL].main
    for pipeline in (PIPELINE, OTHER):
        deployment.workers(pipeline).revisions.record(MODEL, "main", "0" * 40)
    assert update(PIPELINE) == 0
    assert capsys.readouterr().out == f"{PIPELINE}: {MODEL}@main is {new} (before: {'0' * 40})\n"
    commits = [deployment.workers(one).revisions.list()[0].commit for one in (PIPELINE, OTHER)]
    assert commits == [new, "0" * 40]
    assert update() == 0
    assert f"{PIPELINE}: {MODEL}@main is {new} (as before)" in capsys.readouterr().out
    assert deployment.workers(OTHER).revisions.list()[0].commit == new


def test_a_commit_moves_that_a_worker_with_another_clock_has_recorded(
    hub: Hub, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = deployment.workers(PIPELINE).revisions
    with monkeypatch.context() as worker:
        worker.setattr(revisions, "now", lambda: (datetime.now(UTC) + timedelta(minutes=5)).isoformat())
        recorded.record(MODEL, "main", "0" * 40)
    assert update(PIPELINE) == 0
    assert recorded.list()[0].commit == hub.repositories[MODEL].main, "as the command has printed"


def test_a_model_that_the_hub_does_not_have_any_more_keeps_no_other_one_from_its_update(
    hub: Hub, deployment: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    """The row of a model stays when another one is configured."""
    recorded = deployment.workers(PIPELINE).revisions
    for model in ("my-org/removed", MODEL):
        recorded.record(model, "main", "0" * 40)
    assert update() == 1
    printed = capsys.readouterr()
    assert f"{PIPELINE}: {MODEL}@main is {hub.repositories[MODEL].main}" in printed.out
    assert f"{PIPELINE}: ModelUnavailable: my-org/removed does not exist on the Hub" in printed.err
    assert {one.model: one.commit for one in recorded.list()} == {
        "my-org/removed": "0" * 40,
        MODEL: hub.repositories[MODEL].main,
    }


def test_a_pinned_commit_stays(hub: Hub, deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    """The Hub may not have it any more."""
    deployment.workers(PIPELINE).revisions.record_pinned(MODEL, "0" * 40)
    assert update(PIPELINE) == 0
    assert "nothing is recorded" in capsys.readouterr().out
    assert deployment.workers(PIPELINE).revisions.list()[0].commit == "0" * 40


def test_a_pipeline_that_is_not_deployed_is_refused(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert update("cosmos3-super") == 2
    assert "cosmos3-super is not deployed here" in capsys.readouterr().err


def test_a_pipeline_without_a_recorded_revision_is_reported(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert update(PIPELINE) == 0
    assert capsys.readouterr().out == f"{PIPELINE}: nothing is recorded; its first worker records what it loads\n"
