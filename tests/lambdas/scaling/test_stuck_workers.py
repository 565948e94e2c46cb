"""Workers for which Batch finds no instance for too long are ended, with the reason of AWS."""

from collections.abc import Callable

from cosmos_batch.state import Workers
from tests.lambdas.cloud import Cloud
from tests.lambdas.scaling.pipeline_steps import PLANNED, SWEEP, enqueue, nudge


def test_a_worker_without_an_instance_is_cancelled_with_the_reason_of_aws(
    cloud: Cloud, workers: Workers, deployed: Callable[..., None]
) -> None:
    deployed(scaling={"stuck_minutes": 10})
    enqueue(cloud)
    nudge(PLANNED)
    cloud.batch.jobs["job-0"]["createdAt"] -= 11 * 60_000
    nudge(SWEEP)  # gives it up
    nudge(SWEEP)  # hears of its end
    error = workers.pipeline().reason
    assert error is not None and error.code == "NoCapacity"
    for word in ["RUNNABLE for more than 10 minutes", "g6e.12xlarge is INVALID", "no such subnet", "g5.12xlarge"]:
        assert word in error.message
    assert "quota" in error.remedy


def test_a_worker_that_may_still_get_an_instance_is_left_alone(
    cloud: Cloud, workers: Workers, deployed: Callable[..., None]
) -> None:
    deployed(scaling={"stuck_minutes": 10})
    enqueue(cloud)
    nudge(PLANNED)
    cloud.batch.jobs["job-0"]["createdAt"] -= 9 * 60_000
    nudge(SWEEP)
    assert cloud.batch.jobs["job-0"]["status"] == "RUNNABLE"


def test_a_running_worker_is_not_stuck(cloud: Cloud, workers: Workers, deployed: Callable[..., None]) -> None:
    deployed(scaling={"stuck_minutes": 10})
    enqueue(cloud)
    nudge(PLANNED)
    cloud.batch.jobs["job-0"] |= {"status": "RUNNING", "createdAt": 0}
    nudge(SWEEP)
    assert cloud.batch.jobs["job-0"]["status"] == "RUNNING"
