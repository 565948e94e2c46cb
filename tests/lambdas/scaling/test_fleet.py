"""Workers stay warm, leave at the end of their life, and are replaced when they end or are outdated."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Error
from cosmos_batch.state import WorkerRow, Workers
from lambdas.job_queues import count_jobs
from lambdas.scaling.fleet import FleetWorker
from lambdas.scaling.worker_count import workers_to_retire
from tests.lambdas.cloud import SMALL, Cloud
from tests.lambdas.scaling.pipeline_steps import PLANNED, SWEEP, enqueue, let_pauses_pass, nudge, open_breaker


def serve(workers: Workers, *names: str) -> None:
    for name in names:
        workers.started(name)
        workers.ready(name)
        workers.seen(name, 1)


def age(cloud: Cloud, worker: str, hours: float) -> None:
    submitted = (datetime.now(UTC) - timedelta(hours=hours)).isoformat()
    cloud.table.update(f"pipeline#{SMALL}", f"worker#{worker}", "SET #submittedAt = :then", {"then": submitted})


class TestWarm:
    def test_warm_workers_start_without_any_work(self, cloud: Cloud, deployed) -> None:
        deployed(warm_workers=2)
        nudge(SWEEP)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 2

    def test_warm_workers_are_asked_to_stay_and_workers_of_a_burst_are_not(
        self, cloud: Cloud, workers: Workers, deployed
    ) -> None:
        deployed(warm_workers=1)
        enqueue(cloud, 30)
        nudge(PLANNED)
        assert len(cloud.batch.submitted) > 1
        serve(workers, "job-0", "job-1")
        nudge(SWEEP)
        assert [row.worker for row in workers.list() if row.keep] == ["job-0"]

    def test_a_warm_worker_that_ends_is_replaced_and_another_stays(
        self, cloud: Cloud, workers: Workers, deployed
    ) -> None:
        deployed(warm_workers=2)
        nudge(SWEEP)
        serve(workers, "job-0", "job-1")
        nudge(SWEEP)
        workers.ended("job-0")
        nudge(SWEEP)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 3
        assert {row.worker for row in workers.list() if row.keep and row.state != "ENDED"} == {"job-1", "job-2"}

    def test_warm_workers_that_are_no_longer_wanted_may_leave(self, workers: Workers, deployed) -> None:
        deployed(warm_workers=2)
        nudge(SWEEP)
        deployed(warm_workers=0)
        nudge(SWEEP)
        assert not [row for row in workers.list() if row.keep]

    def test_no_worker_is_started_during_a_pause(self, cloud: Cloud, workers: Workers, deployed) -> None:
        deployed()
        open_breaker(cloud, workers)
        before = len(cloud.batch.submitted)
        deployed(warm_workers=2)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == before


class TestLife:
    def test_the_life_of_each_worker_varies_by_up_to_a_tenth(self) -> None:
        now = datetime.now(UTC)
        ends = []
        for number in range(200):
            row = WorkerRow(worker=f"w{number}", state="READY", last_seen="", submitted_at=now.isoformat())
            worker = FleetWorker(row, None)
            ends.append(next(h for h in range(300) if worker.is_past_its_life(2, now + timedelta(hours=h / 100))))
        assert min(ends) >= 180 and max(ends) <= 221 and len(set(ends)) > 20

    def test_an_old_worker_leaves_when_its_successor_has_loaded(self, cloud: Cloud, workers: Workers, deployed) -> None:
        deployed(warm_workers=1)
        nudge(SWEEP)
        serve(workers, "job-0")
        age(cloud, "job-0", 30)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 2
        assert not workers.get("job-0").must_drain
        serve(workers, "job-1")
        nudge(SWEEP)
        assert workers.get("job-0").must_drain and not workers.get("job-1").must_drain
        assert len(cloud.batch.submitted) == 2

    def test_an_old_worker_leaves_first_if_there_is_no_room_for_another(
        self, cloud: Cloud, workers: Workers, deployed
    ) -> None:
        deployed(warm_workers=1, max_workers=1)
        nudge(SWEEP)
        serve(workers, "job-0")
        age(cloud, "job-0", 30)
        nudge(SWEEP)
        assert workers.get("job-0").must_drain
        assert len(cloud.batch.submitted) == 1
        workers.ended("job-0")
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 2

    @given(*[st.integers(0, 20)] * 4)
    def test_no_more_old_workers_are_drained_than_there_are(
        self, aging: int, ready: int, wanted: int, room: int
    ) -> None:
        assert 0 <= workers_to_retire(aging, ready, wanted, room) <= aging

    @given(aging=st.integers(1, 20), ready=st.integers(0, 20), wanted=st.integers(0, 40))
    def test_with_room_the_pool_stays_as_large_as_it_is_wanted(self, aging: int, ready: int, wanted: int) -> None:
        left = ready + aging - workers_to_retire(aging, ready, wanted, room=1)
        assert left >= min(wanted, ready + aging)


class TestEnds:
    """Workers end before they serve, while twenty jobs wait and there is room for sixteen workers."""

    @pytest.fixture
    def sixteen(self, cloud: Cloud, workers: Workers, deployed) -> list[str]:
        deployed(max_workers=16)
        workers.measured(seconds_per_unit=100, cold_start_seconds=1)
        enqueue(cloud, 20)
        nudge(PLANNED)
        assert len(cloud.batch.submitted) == 16
        return list(cloud.batch.jobs)

    def end(self, cloud: Cloud, reason: str, exit_code: int | None = None) -> None:
        """End all workers that have not ended."""
        for job in cloud.batch.jobs.values():
            if job["status"] != "FAILED":
                container = {} if exit_code is None else {"exitCode": exit_code}
                job |= {"status": "FAILED", "statusReason": reason, "container": container}

    def holds_all(self, cloud: Cloud) -> bool:
        return cloud.stepfunctions.answers == [] and count_jobs(cloud.jobs_queue) == 20

    @pytest.mark.parametrize(
        "reason",
        [
            "Canceled by JobStateTimeLimit action due to reason: CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
            "RUNNABLE for more than 60 minutes: g6e.12xlarge is VALID (You have reached your vCPU limit)",
            "Host EC2 (instance i-0abc) terminated.",
        ],
        ids=["cancelled by Batch", "quota", "Spot"],
    )
    @pytest.mark.usefixtures("sixteen")
    def test_without_capacity_all_jobs_wait_and_workers_are_submitted_again(
        self, cloud: Cloud, workers: Workers, reason: str
    ) -> None:
        """Batch cancels the workers together, again and again; ends that counted would open the breaker at the third
        time.
        """
        for times in range(1, 5):
            self.end(cloud, reason)
            nudge(SWEEP)
            assert len(cloud.batch.submitted) == 16 * (times + 1)
        assert not workers.pipeline().open
        assert self.holds_all(cloud)

    @pytest.mark.usefixtures("sixteen")
    @pytest.mark.parametrize("passes_by", ["a worker that starts", "an empty queue"])
    def test_a_lack_of_capacity_is_stored_until_it_has_passed(
        self, cloud: Cloud, workers: Workers, passes_by: str
    ) -> None:
        self.end(cloud, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
        nudge(SWEEP)
        since = workers.pipeline().no_capacity_since
        self.end(cloud, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
        nudge(SWEEP)
        row = workers.pipeline()
        assert row.lacks_capacity and row.no_capacity_since == since is not None
        if passes_by == "a worker that starts":
            workers.started("job-32")
        else:
            cloud.sqs.purge_queue(QueueUrl=cloud.jobs_queue)
            for worker in workers.list():
                workers.ended(worker.worker)
        assert workers.shortages.list() == []
        nudge(SWEEP)
        row = workers.pipeline()
        assert (row.reason, row.no_capacity_since) == (None, None)
        [shortage] = workers.shortages.list()
        assert shortage.since == since < shortage.until

    @pytest.mark.usefixtures("sixteen")
    def test_a_lack_of_capacity_is_stored_while_an_earlier_worker_drains(self, cloud: Cloud, workers: Workers) -> None:
        """It has its instance and takes no job, however long its last one takes."""
        workers.started("job-0")
        workers.ready("job-0")
        workers.must_drain("job-0")
        cloud.batch.jobs["job-0"]["status"] = "RUNNING"
        for job in list(cloud.batch.jobs.values())[1:]:
            job |= {"status": "FAILED", "statusReason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"}
        for _ in range(2):
            nudge(SWEEP)
            assert workers.pipeline().lacks_capacity

    @pytest.mark.usefixtures("sixteen")
    def test_workers_without_an_instance_are_counted_for_the_alarm(
        self, cloud: Cloud, lines: Callable[[], str]
    ) -> None:
        self.end(cloud, "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY")
        nudge(SWEEP)
        [metric] = [json.loads(line) for line in lines().splitlines() if "StuckWorkers" in line][-1:]
        assert metric["StuckWorkers"] == 16

    @pytest.mark.parametrize("told_by", ["batch", "supervisor"])
    def test_starting_workers_that_are_killed_are_replaced_at_the_next_call(
        self, cloud: Cloud, workers: Workers, sixteen: list[str], told_by: str
    ) -> None:
        for victim in sixteen[:2]:
            before = len(cloud.batch.submitted)
            workers.started(victim)
            cloud.batch.jobs[victim] |= {"status": "FAILED", "statusReason": "Essential container in task exited"}
            cloud.batch.jobs[victim]["container"] = {"exitCode": 137}
            if told_by == "supervisor":
                killed = Error(code="EngineFailed", message="was ended by SIGKILL", remedy="r", retryable=True)
                workers.ended(victim, killed, cause="killed")
            nudge(SWEEP)
            assert len(cloud.batch.submitted) == before + 1
        assert workers.pipeline().retry_at is None

    def test_sixteen_workers_that_end_by_one_passing_cause_are_one_failure(
        self, cloud: Cloud, workers: Workers, sixteen: list[str]
    ) -> None:
        for victim in sixteen:
            cloud.batch.jobs[victim] |= {"status": "FAILED", "statusReason": "failed to invoke EFS utils"}
            nudge(SWEEP)
        assert (workers.pipeline().failures, workers.pipeline().open) == (1, False)
        assert self.holds_all(cloud)
        let_pauses_pass(workers)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 17, "one tries"

    @pytest.mark.usefixtures("sixteen")
    def test_an_image_that_is_not_there_refuses_the_queue_at_the_third_wave(
        self, cloud: Cloud, workers: Workers
    ) -> None:
        for wave in range(3):
            assert self.holds_all(cloud), f"wave {wave}"
            self.end(cloud, "CannotPullContainerError: worker:1: not found")
            nudge(SWEEP)
            let_pauses_pass(workers) if wave < 2 else None
            nudge(SWEEP)
        assert len(cloud.stepfunctions.answers) == 20
        cause = Error.model_validate_json(cloud.stepfunctions.answers[0]["cause"])
        assert "CannotPullContainerError" in cause.message and "image" in cause.remedy


class TestOutdated:
    def test_a_worker_that_waits_for_an_instance_is_cancelled_without_counting_as_a_failure(
        self, cloud: Cloud, workers: Workers, deployed
    ) -> None:
        deployed()
        enqueue(cloud)
        nudge(PLANNED)
        deployed(job_definition="arn:aws:batch:us-east-1:123456789012:job-definition/reason2B:2", max_workers=1)
        nudge(SWEEP)
        assert cloud.batch.jobs["job-0"]["statusReason"] == "Another deployment has taken its place."
        nudge(SWEEP)
        assert [submission["jobDefinition"][-2:] for submission in cloud.batch.submitted] == [":1", ":2"]
        assert workers.pipeline().failures == 0

    def test_a_busy_worker_is_asked_to_leave_and_finishes_its_jobs(
        self, cloud: Cloud, workers: Workers, deployed
    ) -> None:
        deployed()
        enqueue(cloud)
        nudge(PLANNED)
        serve(workers, "job-0")
        cloud.batch.jobs["job-0"]["status"] = "RUNNING"
        deployed(job_definition="arn:aws:batch:us-east-1:123456789012:job-definition/reason2B:2")
        nudge(SWEEP)
        row = workers.get("job-0")
        assert row is not None and row.must_drain
        assert cloud.batch.jobs["job-0"]["status"] == "RUNNING"
