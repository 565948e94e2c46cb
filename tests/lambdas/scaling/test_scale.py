"""`scale` with the state table, the queues and a fake Batch."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cosmos_batch.state import Jobs, Workers
from lambdas.handlers.scale import handler
from lambdas.scaling import nudges, scale
from tests.lambdas.cloud import DEFINITION, SMALL, Cloud, event, sqs_batch
from tests.lambdas.scaling.pipeline_steps import PLANNED, SWEEP, enqueue, nudge
from tests.support.jobs import make_job

pytestmark = pytest.mark.usefixtures("deployed_scale")


def test_work_starts_a_worker(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    [submitted] = cloud.batch.submitted
    assert submitted["jobDefinition"] == DEFINITION
    assert submitted["jobName"].startswith(f"{SMALL}-")
    assert submitted["tags"] == {"cosmos-batch:pipeline": SMALL}
    [row] = workers.list()
    assert (row.worker, row.state, row.job_definition) == ("job-0", "SUBMITTED", DEFINITION)


def test_an_empty_queue_starts_no_worker(cloud: Cloud) -> None:
    nudge(SWEEP)
    assert cloud.batch.submitted == []


def test_many_nudges_start_exactly_the_wanted_workers(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=1, cold_start_seconds=1)
    enqueue(cloud, 30)
    for _ in range(3):
        nudge(*[PLANNED] * 10)
    assert len(cloud.batch.submitted) == 3


def test_one_look_starts_so_many_workers_and_the_next_look_starts_the_others(
    cloud: Cloud, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "STARTS_AT_ONCE", 3)
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 10)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 3
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


def test_no_more_workers_start_than_may_run(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 10)
    nudge(PLANNED)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


def test_messages_in_hand_count_as_backlog(cloud: Cloud) -> None:
    enqueue(cloud)
    cloud.sqs.receive_message(QueueUrl=cloud.jobs_queue)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1


@pytest.mark.parametrize("state", ["STARTING", "READY"])
def test_no_second_worker_starts_while_the_first_worker_suffices(cloud: Cloud, workers: Workers, state: str) -> None:
    nudge(PLANNED)
    workers.started("job-0")
    if state == "READY":
        workers.ready("job-0")
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 1


def test_a_draining_worker_is_not_counted(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    workers.started("job-0")
    workers.draining("job-0")
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 2


def test_draining_workers_count_towards_the_limit_until_they_end(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 10)
    nudge(PLANNED)
    workers.draining("job-0")
    workers.must_drain("job-1")
    cloud.batch.jobs["job-2"] |= {"jobDefinition": DEFINITION[:-1] + "0", "status": "RUNNING"}
    cloud.table.update(f"pipeline#{SMALL}", "worker#job-2", "REMOVE #jobDefinition")
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 4, "maxVCpus is a total"
    workers.seen("job-0", completed=1)
    workers.ended("job-0")
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 5


def test_a_worker_that_ended_without_a_report_is_recorded_and_replaced(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    workers.started("job-0")
    workers.seen("job-0", completed=5)
    cloud.batch.jobs["job-0"]["status"] = "FAILED"
    nudge(PLANNED)
    assert [row.state for row in workers.list()] == ["ENDED", "SUBMITTED"]
    assert workers.pipeline().failures == 0


def test_a_worker_that_batch_has_forgotten_ends_after_a_while(cloud: Cloud, workers: Workers) -> None:
    workers.started("job-lost")
    nudge(SWEEP)
    assert workers.list()[0].state == "STARTING"
    long_ago = (datetime.now(UTC) - timedelta(minutes=16)).isoformat()
    cloud.table.update(f"pipeline#{SMALL}", "worker#job-lost", "SET #lastSeen = :then", {"then": long_ago})
    nudge(SWEEP)
    assert workers.list()[0].state == "ENDED"


def test_a_worker_of_an_older_job_definition_is_asked_to_leave_and_replaced(cloud: Cloud, workers: Workers) -> None:
    cloud.batch.jobs["old"] = {"jobId": "old", "status": "RUNNING", "jobDefinition": DEFINITION[:-1] + "0"}
    workers.started("old")
    nudge(PLANNED)
    row = workers.get("old")
    assert row is not None and row.must_drain
    assert len(cloud.batch.submitted) == 1


def test_the_end_of_a_worker_does_not_mean_work(cloud: Cloud) -> None:
    ended = event("batch_job_failed")
    cloud.batch.jobs[ended["detail"]["jobId"]] = {**ended["detail"], "status": "SUCCEEDED"}
    nudge(ended)
    assert cloud.batch.submitted == []


def test_events_of_other_queues_are_ignored(cloud: Cloud, workers: Workers) -> None:
    ended = event("batch_job_failed")
    ended["detail"]["jobQueue"] += "-of-somebody-else"
    nudge(ended, {"pipeline": "cosmos-reason2-8b"})
    assert workers.list() == []


def test_a_nudge_to_look_does_not_deduplicate_a_nudge_for_work(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nudges.time, "time", lambda: 1000.0)
    nudges.nudge_to_look(cloud.nudges, SMALL)
    nudges.nudge_for_work(cloud.nudges, SMALL)
    assert cloud.messages(cloud.nudges) == [SWEEP, PLANNED]


def test_the_sweep_is_one_nudge_for_each_pipeline(cloud: Cloud) -> None:
    handler({"sweep": True}, None)
    handler({"sweep": True}, None)
    assert cloud.messages(cloud.nudges) == [SWEEP]


def test_a_failed_nudge_is_received_again(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: Any) -> None:
        raise ConnectionError

    monkeypatch.setattr(cloud.batch, "submit_job", broken)
    assert handler(sqs_batch(PLANNED, SWEEP), None) == {
        "batchItemFailures": [{"itemIdentifier": "m0"}, {"itemIdentifier": "m1"}]
    }


class TestTotals:
    """The totals of waiting jobs and their weight.

    Each test leaves a job that is in no queue, as a crashed process does.
    """

    @pytest.fixture
    def totals(self, cloud: Cloud) -> Callable[[], tuple[int, float]]:
        Jobs(cloud.table).create(make_job("lost"))

        def read() -> tuple[int, float]:
            row = Workers(cloud.table, SMALL).pipeline()
            return row.waiting_jobs, row.waiting_weight

        return read

    def pass_minutes(self, cloud: Cloud) -> None:
        long_ago = (datetime.now(UTC) - timedelta(minutes=4)).isoformat()
        cloud.table.update(f"pipeline#{SMALL}", "pipeline", "SET #surplusSince = :then", {"then": long_ago})

    def test_an_empty_queue_resets_the_waiting_totals_after_some_minutes(self, cloud: Cloud, totals) -> None:
        nudge(SWEEP)
        nudge(SWEEP)
        assert totals() == (1, 1.0), "the message of a job that was just planned may be on its way"
        self.pass_minutes(cloud)
        nudge(SWEEP)
        assert totals() == (0, 0)

    def test_a_job_that_is_planned_meanwhile_stays_counted(self, cloud: Cloud, workers: Workers, totals) -> None:
        nudge(SWEEP)
        row = workers.pipeline()
        Jobs(cloud.table).create(make_job("new"))
        workers.subtract_surplus(row.waiting_jobs, row.waiting_weight)
        assert totals() == (1, 1.0)

    def test_totals_that_change_are_not_corrected(self, cloud: Cloud, totals) -> None:
        nudge(SWEEP)
        self.pass_minutes(cloud)
        Jobs(cloud.table).create(make_job("new"))
        nudge(SWEEP)
        assert totals() == (2, 2.0)

    def test_totals_are_not_corrected_while_a_message_is_in_the_queue(self, cloud: Cloud, totals) -> None:
        nudge(SWEEP)
        self.pass_minutes(cloud)
        enqueue(cloud)
        nudge(SWEEP)
        assert totals() == (2, 2.0)
        assert Workers(cloud.table, SMALL).pipeline().surplus_since is None


def test_a_pipeline_begins_with_the_estimate_for_its_gpus(cloud: Cloud, workers: Workers) -> None:
    nudge(SWEEP)
    assert workers.pipeline().seconds_per_unit == 0.295


def test_heavy_jobs_start_more_workers_than_as_many_light_jobs(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=1, cold_start_seconds=1)
    enqueue(cloud, 10)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 1
    cloud.table.update(f"pipeline#{SMALL}", "pipeline", "SET #waitingWeight = :heavy", {"heavy": 40})
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4


def test_metrics_are_a_log_line(cloud: Cloud, lines: Callable[[], str]) -> None:
    enqueue(cloud, 2)
    nudge(SWEEP)
    [metric] = [json.loads(line) for line in lines().splitlines() if "_aws" in line]
    assert (metric["pipeline"], metric["Backlog"], metric["WantedWorkers"], metric["BreakerOpen"]) == (SMALL, 2, 1, 0)
    [directive] = metric["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["pipeline"]]
    assert {one["Name"] for one in directive["Metrics"]} <= metric.keys()


@pytest.mark.parametrize("moved", ["nvidia/Cosmos-Reason2-2B", "Qwen/Qwen3Guard-Gen-0.6B"])
def test_a_worker_of_an_outdated_commit_is_replaced(cloud: Cloud, workers: Workers, moved: str) -> None:
    """The commit may be that of its model, or of a model of its guardrails."""
    enqueue(cloud)
    nudge(PLANNED)
    workers.started("job-0")
    guardrails = {"Qwen/Qwen3Guard-Gen-0.6B": "1" * 40}
    workers.loaded("job-0", "nvidia/Cosmos-Reason2-2B", "main", "1" * 40, guardrails)
    workers.ready("job-0")
    for model in ("nvidia/Cosmos-Reason2-2B", *guardrails):
        workers.revisions.record(model, "main", "1" * 40)
    nudge(SWEEP)
    row = workers.get("job-0")
    assert row is not None and not row.must_drain
    workers.revisions.record(moved, "main", "2" * 40, unless_since=datetime.now(UTC))
    nudge(SWEEP)
    row = workers.get("job-0")
    assert row is not None and row.must_drain
    assert len(cloud.batch.submitted) == 2
