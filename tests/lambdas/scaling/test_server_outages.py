"""`scale` while jobs wait in their queue for a server that is away (decision 053)."""

from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.state import Waiting, Workers
from lambdas.scaling.worker_count import OUTAGE_COUNTS_FOR
from tests.lambdas.cloud import DEFINITION, SMALL, Cloud
from tests.lambdas.scaling.pipeline_steps import PLANNED, SWEEP, enqueue, nudge

pytestmark = pytest.mark.usefixtures("deployed_scale")


def wait(seconds: float) -> Waiting:
    until = datetime.now(UTC) + timedelta(seconds=seconds)
    return Waiting(reason="The server is away.", until=until.isoformat(timespec="seconds"))


@pytest.fixture
def paused(cloud: Cloud, workers: Workers) -> None:
    """Hide thirty jobs, for which four workers would start, as a worker does that finds their server away."""
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 30)
    for _ in range(3):
        messages = cloud.sqs.receive_message(QueueUrl=cloud.jobs_queue, MaxNumberOfMessages=10)["Messages"]
        assert len(messages) == 10


def leave(workers: Workers, cloud: Cloud, worker: str, waiting: Waiting | None, completed: int = 0) -> None:
    """Let a worker leave whose jobs wait until then; it has ended in Batch."""
    workers.started(worker)
    workers.ready(worker)
    workers.seen(worker, completed)
    workers.draining(worker, waiting)
    workers.ended(worker)
    cloud.batch.jobs[worker]["status"] = "SUCCEEDED"


@pytest.mark.usefixtures("paused")
@pytest.mark.parametrize("completed", [0, 5])
def test_no_worker_starts_before_the_jobs_are_tried_again(cloud: Cloud, workers: Workers, completed: int) -> None:
    nudge(PLANNED)
    started = len(cloud.batch.submitted)
    assert started == 4
    for number in range(started):
        leave(workers, cloud, f"job-{number}", wait(600), completed)
    for _ in range(3):
        nudge(SWEEP)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == started


@pytest.mark.usefixtures("paused")
def test_one_worker_tries_again_and_the_others_follow_when_the_server_has_answered_it(
    cloud: Cloud, workers: Workers
) -> None:
    workers.submitted("job-first", DEFINITION)
    cloud.batch.jobs["job-first"] = {"jobId": "job-first", "jobDefinition": DEFINITION}
    leave(workers, cloud, "job-first", wait(-1), completed=5)
    for _ in range(3):
        nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1
    workers.started("job-0")
    workers.ready("job-0")
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1
    workers.seen("job-0", completed=1)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1, "a job that needs no server says nothing about it"
    workers.seen("job-0", completed=2, server_answers=True)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


@pytest.mark.usefixtures("paused")
def test_an_outage_that_no_other_worker_has_left_for_is_over_after_an_hour(cloud: Cloud, workers: Workers) -> None:
    """The jobs that waited for the server may have been cancelled, and others need their workers."""
    workers.submitted("job-first", DEFINITION)
    cloud.batch.jobs["job-first"] = {"jobId": "job-first", "jobDefinition": DEFINITION}
    leave(workers, cloud, "job-first", wait(-OUTAGE_COUNTS_FOR.total_seconds()), completed=5)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


@pytest.mark.usefixtures("paused")
def test_a_worker_that_is_about_to_end_counts_as_left(cloud: Cloud, workers: Workers) -> None:
    workers.submitted("job-first", DEFINITION)
    cloud.batch.jobs["job-first"] = {"jobId": "job-first", "jobDefinition": DEFINITION, "status": "RUNNING"}
    workers.ready("job-first")
    workers.draining("job-first", wait(600))
    nudge(SWEEP)
    assert cloud.batch.submitted == []


@pytest.mark.usefixtures("paused")
def test_a_worker_that_stayed_after_all_and_ends_by_a_spot_notice_is_replaced_at_once(
    cloud: Cloud, workers: Workers
) -> None:
    workers.submitted("job-first", DEFINITION)
    workers.started("job-first")
    workers.draining("job-first", wait(600))
    workers.ready("job-first")
    workers.seen("job-first", completed=5)
    workers.ended("job-first")
    cloud.batch.jobs["job-first"] = {"jobId": "job-first", "jobDefinition": DEFINITION, "status": "SUCCEEDED"}
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


@pytest.mark.usefixtures("paused")
def test_only_the_worker_that_was_the_last_to_leave_tells(cloud: Cloud, workers: Workers) -> None:
    for number, until in enumerate((wait(600), None)):
        name = f"job-{number + 100}"
        workers.submitted(name, DEFINITION)
        cloud.batch.jobs[name] = {"jobId": name, "jobDefinition": DEFINITION}
        leave(workers, cloud, name, until, completed=1)
    cloud.table.update(f"pipeline#{SMALL}", "worker#job-100", "SET #lastSeen = :then", {"then": wait(-60).until})
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


@pytest.mark.usefixtures("paused")
def test_a_new_deployment_does_not_wait_for_the_server_of_the_one_before(cloud: Cloud, workers: Workers) -> None:
    older = DEFINITION[:-1] + "0"
    workers.submitted("job-first", older)
    cloud.batch.jobs["job-first"] = {"jobId": "job-first", "jobDefinition": older}
    leave(workers, cloud, "job-first", wait(600))
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4
