"""A job that waits because no worker can load shows the worker's error at once."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.worker_failures import find_worker_failure
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.state import Attempt, PipelineRow, Workers
from tests.cli.conftest import PIPELINE, FakeStepFunctions

NO_HUB = Error(code="ModelUnavailable", message="The Hub cannot be reached.", remedy="Check the NAT.", retryable=True)
NO_TOKEN = Error(code="ModelUnavailable", message="No token is set.", remedy="Set one.", retryable=True)
LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def workers(deployment: Deployment) -> Workers:
    return deployment.workers(PIPELINE)


def fail(workers: Workers, name: str, error: Error) -> None:
    """Record a worker that has started and could not load."""
    workers.submitted(name, "definition")
    workers.started(name)
    workers.ended(name, error)


def test_without_a_failed_worker_there_is_no_failure(workers: Workers) -> None:
    assert find_worker_failure(workers) is None
    workers.started("w")
    assert find_worker_failure(workers) is None


def test_the_first_failure_is_reported_before_scale_has_counted_it(workers: Workers) -> None:
    fail(workers, "w", NO_HUB)
    text = str(find_worker_failure(workers))
    assert text == (
        "no worker can serve: The Hub cannot be reached. Check the NAT. The next worker is started within a minute."
    )


def test_then_the_pipelines_row_has_the_reason_and_the_time_of_the_next_try(workers: Workers) -> None:
    fail(workers, "w", NO_HUB)
    workers.judged("w")
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    text = str(find_worker_failure(workers))
    assert "The Hub cannot be reached." in text
    assert text.endswith(f"The next worker is started at {LATER:%H:%M:%S} UTC.")


def test_the_error_of_the_last_worker_is_shown(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.judged("w1")
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    fail(workers, "w2", NO_TOKEN)
    assert "No token is set." in str(find_worker_failure(workers))


def test_while_another_one_starts_that_is_the_next_try(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.submitted("w2", "definition")
    assert str(find_worker_failure(workers)).endswith("Another worker is being started.")


def test_where_a_worker_serves_there_is_none(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    workers.started("w2")
    workers.ready("w2")
    assert find_worker_failure(workers) is None


def test_a_worker_that_has_served_and_left_is_none(workers: Workers) -> None:
    workers.started("w")
    workers.ready("w")
    workers.ended("w", NO_HUB, completed=3)
    assert find_worker_failure(workers) is None


@pytest.fixture
def waiting(deployment: Deployment, job: Job, stepfunctions: FakeStepFunctions, monkeypatch: pytest.MonkeyPatch) -> Job:
    """Provide a job that waits, and a worker that could not load."""
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    stepfunctions.put(job.job_id, "RUNNING")
    fail(deployment.workers(PIPELINE), "w", NO_HUB)
    return job


def test_status_shows_the_failure_for_each_job_that_waits(waiting: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 0
    _, line, *reason = capsys.readouterr().out.splitlines()
    assert line.startswith(waiting.job_id)
    text = " ".join(part.strip() for part in reason)
    assert text.startswith("no worker can serve: The Hub cannot be reached. Check the NAT.")
    assert main(["status", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert "The Hub cannot be reached." in line["waits_for"]


def test_status_shows_no_failure_for_a_job_that_has_a_worker(
    deployment: Deployment, waiting: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    deployment.jobs.open_attempt(waiting.job_id, Attempt(id="a", worker="other", solo=False))
    assert main(["status"]) == 0
    assert "no worker can serve" not in capsys.readouterr().out


def test_result_shows_the_failure(waiting: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["result", waiting.job_id]) == 3
    assert "under way: no worker can serve: The Hub cannot be reached." in capsys.readouterr().err
