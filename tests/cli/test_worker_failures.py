"""A job that waits because no worker can load shows the worker's error at once."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.cli import deployment as deployments
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.main import main
from cosmos_batch.cli.worker_failures import find_worker_failure, print_worker_failures
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import Job
from cosmos_batch.state import Attempt, PipelineRow, Waiting, Workers
from tests.cli.conftest import PIPELINE, FakeStepFunctions

NO_HUB = Error(code="ModelUnavailable", message="The Hub cannot be reached.", remedy="Check the NAT.", retryable=True)
NO_TOKEN = Error(code="ModelUnavailable", message="No token is set.", remedy="Set one.", retryable=True)
NO_CAPACITY = Error(
    code="NoCapacity", message="RUNNABLE for more than 60 minutes.", remedy="Add a zone.", retryable=True
)
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
    workers.counted("w")
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    text = str(find_worker_failure(workers))
    assert "The Hub cannot be reached." in text
    assert text.endswith(f"The next worker is started at {LATER:%H:%M:%S} UTC.")


def test_the_error_of_the_last_worker_is_shown(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.counted("w1")
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    fail(workers, "w2", NO_TOKEN)
    assert "No token is set." in str(find_worker_failure(workers))


def test_a_worker_that_is_starting_is_the_next_try(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.submitted("w2", "definition")
    assert str(find_worker_failure(workers)).endswith("Another worker is being started.")


def test_a_failure_is_not_shown_while_another_worker_serves(workers: Workers) -> None:
    fail(workers, "w1", NO_HUB)
    workers.set_breaker(PipelineRow(failures=1, reason=NO_HUB, retry_at=LATER.isoformat()))
    workers.started("w2")
    workers.ready("w2")
    assert find_worker_failure(workers) is None


def test_a_worker_that_has_served_and_left_is_no_failure(workers: Workers) -> None:
    workers.started("w")
    workers.ready("w")
    workers.ended("w", NO_HUB, completed=3)
    assert find_worker_failure(workers) is None


def lack_capacity(workers: Workers) -> None:
    """Record that Batch found no instance, as `scale` does, and that it has submitted another worker."""
    workers.submitted("w1", "definition")
    workers.ended("w1", NO_CAPACITY, cause="capacity")
    workers.counted("w1")
    workers.set_breaker(PipelineRow(reason=NO_CAPACITY, no_capacity_since="2026-11-22T07:10:30+00:00"))
    workers.submitted("w2", "definition")


def test_a_lack_of_capacity_is_shown_with_the_time_since_when(workers: Workers) -> None:
    lack_capacity(workers)
    assert str(find_worker_failure(workers)) == (
        "no worker can serve: RUNNABLE for more than 60 minutes. Add a zone. "
        "There has been no instance since 2026-11-22 07:10 UTC. Another worker is being started."
    )


def test_a_lack_of_capacity_of_an_older_version_is_shown_without_a_time(workers: Workers) -> None:
    workers.set_breaker(PipelineRow(reason=NO_CAPACITY))
    assert str(find_worker_failure(workers)) == (
        "no worker can serve: RUNNABLE for more than 60 minutes. Add a zone. "
        "The next worker is started within a minute."
    )


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_lack_of_capacity_is_not_shown_once_a_worker_has_started(workers: Workers, is_ready: bool) -> None:
    lack_capacity(workers)
    workers.started("w2")
    if is_ready:
        workers.ready("w2")
    assert find_worker_failure(workers) is None


def drain(workers: Workers, has_heard: bool) -> None:
    """Record a worker that was asked to leave, and finishes the jobs that it has in hand once it has heard of it."""
    workers.started("old")
    workers.ready("old")
    workers.must_drain("old")
    if has_heard:
        workers.draining("old")


@pytest.mark.parametrize("has_heard", [False, True])
def test_a_worker_that_drains_hides_no_failure_and_is_not_the_next_try(workers: Workers, has_heard: bool) -> None:
    drain(workers, has_heard)
    fail(workers, "w", NO_TOKEN)
    workers.counted("w")
    workers.set_breaker(PipelineRow(failures=1, open=True, reason=NO_TOKEN, retry_at=LATER.isoformat()))
    assert str(find_worker_failure(workers)) == (
        f"no worker can serve: No token is set. Set one. The next worker is started at {LATER:%H:%M:%S} UTC."
    )


@pytest.mark.parametrize("has_heard", [False, True])
def test_a_worker_that_drains_hides_no_lack_of_capacity(workers: Workers, has_heard: bool) -> None:
    drain(workers, has_heard)
    lack_capacity(workers)
    assert "There has been no instance since 2026-11-22 07:10 UTC." in str(find_worker_failure(workers))


def leave(workers: Workers, until: datetime) -> None:
    """Record a worker that has left while its jobs wait for a server until then."""
    workers.started("w")
    workers.ready("w")
    workers.draining("w", Waiting(reason="No server answers at http://10.0.1.7.", until=until.isoformat()))
    workers.ended("w", completed=3)


def test_a_server_that_is_away_is_shown_while_no_worker_is_started_for_it(workers: Workers) -> None:
    leave(workers, LATER)
    assert str(find_worker_failure(workers)) == (
        "no worker can serve: No server answers at http://10.0.1.7. See to it that the server is there and has room. "
        f"The next worker is started at {LATER:%H:%M:%S} UTC."
    )
    workers.submitted("w2", "definition")
    assert find_worker_failure(workers) is None


def test_a_server_that_was_away_is_not_shown_when_a_worker_may_start(workers: Workers) -> None:
    leave(workers, datetime.now(UTC))
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


def test_status_and_submit_show_a_lack_of_capacity(
    deployment: Deployment,
    job: Job,
    stepfunctions: FakeStepFunctions,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(deployments, "find", lambda: deployment)
    stepfunctions.put(job.job_id, "RUNNING")
    lack_capacity(deployment.workers(PIPELINE))
    assert main(["status", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert "no instance since 2026-11-22 07:10 UTC" in line["waits_for"]
    print_worker_failures(deployment, [PIPELINE])  # `submit` calls it after the upload
    assert "no instance since 2026-11-22 07:10 UTC" in " ".join(capsys.readouterr().err.split())


def test_result_shows_the_failure(waiting: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["result", waiting.job_id]) == 3
    assert "under way: no worker can serve: The Hub cannot be reached." in capsys.readouterr().err
