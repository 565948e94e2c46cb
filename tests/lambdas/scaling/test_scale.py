"""`scale` with the state table, the queues and a fake Batch."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cosmos_batch.contract.environment import ScaleEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, Jobs, PipelineRow, Workers
from lambdas.handlers.scale import handler
from lambdas.reporting import refusal
from lambdas.scaling import nudges
from tests.lambdas.cloud import DEFINITION, SMALL, Cloud, event, sqs_batch
from tests.support.jobs import make_job

PLANNED = {"pipeline": SMALL}
SWEEP = {"pipeline": SMALL, "sweep": True}
NOTHING_FAILED: dict[str, Any] = {"batchItemFailures": []}
UNLOADABLE = Error(code="ModelUnavailable", message="The licence was not accepted.", remedy="Accept it.")
UNREACHABLE = Error(code="ModelUnavailable", message="The Hub is out of reach.", remedy="Wait.", retryable=True)


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    configure(ScaleEnvironment)
    monkeypatch.setattr(refusal, "WAIT_SECONDS", 0)


@pytest.fixture
def workers(cloud: Cloud) -> Workers:
    return Workers(cloud.table, SMALL)


def nudge(*bodies: object) -> None:
    assert handler(sqs_batch(*bodies), None) == NOTHING_FAILED


def enqueue(cloud: Cloud, count: int = 1) -> None:
    """Plan jobs named `job-0` and on, and put them into the queue."""
    for number in range(count):
        job = make_job(f"job-{number}")
        Jobs(cloud.table).create(job)
        message = {"schemaVersion": 3, "taskToken": f"token-{number}", "job": job.model_dump(mode="json")}
        cloud.sqs.send_message(QueueUrl=cloud.jobs_queue, MessageBody=json.dumps(message))


def fail_worker(cloud: Cloud, workers: Workers, error: Error | None = UNLOADABLE) -> None:
    """End the last submitted worker before it has served."""
    worker = f"job-{len(cloud.batch.submitted) - 1}"
    cloud.batch.jobs[worker] |= {"status": "FAILED", "statusReason": "Essential container in task exited"}
    if error is not None:
        workers.ended(worker, error)


def let_pauses_pass(workers: Workers) -> None:
    row = workers.pipeline()
    long_ago = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    workers.set_breaker(row.model_copy(update={"retry_at": row.retry_at and long_ago}))


def open_breaker(cloud: Cloud, workers: Workers) -> None:
    for _ in range(3):
        let_pauses_pass(workers)
        nudge(PLANNED)
        fail_worker(cloud, workers)
        nudge(SWEEP)
    assert workers.pipeline().open


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


def test_a_worker_that_ends_without_work_is_no_failure(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    workers.started("job-0")
    workers.ended("job-0")
    cloud.batch.jobs["job-0"]["status"] = "SUCCEEDED"
    nudge(SWEEP)
    assert workers.pipeline().failures == 0


def test_a_failure_counts_once_and_delays_the_next(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    fail_worker(cloud, workers, UNREACHABLE)
    for _ in range(3):
        nudge(PLANNED)
    assert workers.pipeline().failures == 1
    assert len(cloud.batch.submitted) == 1
    let_pauses_pass(workers)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 2


def test_a_job_that_crashes_its_workers_does_not_stop_the_pipeline(cloud: Cloud, workers: Workers) -> None:
    """Workers that had loaded crash: one with several jobs in flight, then again and again with that one job alone."""
    enqueue(cloud)
    for number in range(5):
        let_pauses_pass(workers)
        nudge(PLANNED)
        assert len(cloud.batch.submitted) == number + 1
        workers.started(f"job-{number}")
        workers.ready(f"job-{number}")
        if number == 0:
            workers.began_in_company(f"job-{number}")
        else:
            workers.alone_with(f"job-{number}", "poison")
        fail_worker(cloud, workers)
    nudge(SWEEP)
    breaker = workers.pipeline()
    assert (breaker.failures, breaker.open) == (1, False)


def test_workers_that_load_and_then_crash_without_a_job_are_not_started_for_ever(
    cloud: Cloud, workers: Workers
) -> None:
    enqueue(cloud)
    for number in range(3):
        let_pauses_pass(workers)
        nudge(PLANNED)
        workers.started(f"job-{number}")
        workers.ready(f"job-{number}")
        fail_worker(cloud, workers)
        nudge(PLANNED)
    nudge(PLANNED)
    assert workers.pipeline().open
    assert len(cloud.batch.submitted) == 3


def test_crashes_with_several_jobs_in_flight_are_counted_across_calls(cloud: Cloud, workers: Workers) -> None:
    enqueue(cloud)
    for number in range(10):
        nudge(PLANNED)
        workers.started(f"job-{number}")
        workers.ready(f"job-{number}")
        workers.began_in_company(f"job-{number}")
        fail_worker(cloud, workers)
    nudge(SWEEP)
    assert workers.pipeline().open
    assert len(cloud.batch.submitted) == 10


def test_workers_that_cannot_load_for_a_while_pause_and_their_jobs_wait(cloud: Cloud, workers: Workers) -> None:
    enqueue(cloud)
    for number in range(5):
        nudge(PLANNED)
        assert len(cloud.batch.submitted) == number + 1
        fail_worker(cloud, workers, UNREACHABLE)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == number + 1, "there is a pause"
        let_pauses_pass(workers)
    breaker = workers.pipeline()
    assert (breaker.open, breaker.failures, breaker.reason) == (True, 5, UNREACHABLE)
    assert cloud.stepfunctions.answers == []


def test_a_permanent_load_error_fails_the_queue_at_once(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 9)
    nudge(PLANNED)
    assert len(cloud.batch.submitted) == 4
    for worker in cloud.batch.jobs:
        workers.ended(worker, UNLOADABLE)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4
    assert {answer["error"] for answer in cloud.stepfunctions.answers} == {"ModelUnavailable"}
    assert len(cloud.stepfunctions.answers) == 9


def test_no_job_is_refused_while_another_worker_serves(cloud: Cloud, workers: Workers) -> None:
    """One kind of GPU may be too small for a model, and another large enough."""
    workers.started("on-a-larger-gpu")
    cloud.batch.jobs["on-a-larger-gpu"] = {"jobId": "x", "status": "RUNNING", "jobDefinition": DEFINITION}
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 20)
    nudge(PLANNED)
    fail_worker(cloud, workers, UNLOADABLE)
    nudge(SWEEP)
    assert workers.pipeline().refuses
    assert cloud.stepfunctions.answers == []


def test_a_deployment_closes_the_breaker_of_the_earlier_deployment(cloud: Cloud, workers: Workers) -> None:
    """The failures of earlier workers say nothing about workers of the new job definition."""
    enqueue(cloud)
    nudge(PLANNED)
    fail_worker(cloud, workers, UNLOADABLE)
    cloud.table.update(f"pipeline#{SMALL}", "worker#job-0", "SET #jobDefinition = :old", {"old": DEFINITION[:-1] + "0"})
    workers.set_breaker(PipelineRow(failures=3, open=True, reason=UNLOADABLE, job_definition=DEFINITION[:-1] + "0"))
    nudge(SWEEP)
    assert not workers.pipeline().open
    assert len(cloud.batch.submitted) == 2
    assert cloud.stepfunctions.answers == []


def test_a_worker_that_had_loaded_its_model_refuses_no_job(cloud: Cloud, workers: Workers) -> None:
    """The worker could not get a newer copy of the model; the next one starts with the stored copy."""
    enqueue(cloud)
    nudge(PLANNED)
    workers.started("job-0")
    workers.ready("job-0")
    fail_worker(cloud, workers, UNLOADABLE)
    nudge(SWEEP)
    assert not workers.pipeline().open
    assert cloud.stepfunctions.answers == []


def test_an_open_breaker_fails_the_queue_with_its_reason(cloud: Cloud, workers: Workers) -> None:
    open_breaker(cloud, workers)
    enqueue(cloud, 25)
    nudge(PLANNED)
    assert sorted(answer["taskToken"] for answer in cloud.stepfunctions.answers) == sorted(
        f"token-{number}" for number in range(25)
    )
    assert {answer["error"] for answer in cloud.stepfunctions.answers} == {"ModelUnavailable"}
    assert Error.model_validate_json(cloud.stepfunctions.answers[0]["cause"]) == UNLOADABLE
    row = Jobs(cloud.table).get("job-7")
    assert row is not None and row.state == "FAILED"
    count = cloud.sqs.get_queue_attributes(QueueUrl=cloud.jobs_queue, AttributeNames=["All"])["Attributes"]
    assert count["ApproximateNumberOfMessages"] == count["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_a_job_whose_caller_could_not_be_answered_stays_open(cloud: Cloud, workers: Workers) -> None:
    open_breaker(cloud, workers)
    enqueue(cloud)
    cloud.stepfunctions.refusal = "ThrottlingException"
    assert handler(sqs_batch(SWEEP), None) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    row = Jobs(cloud.table).get("job-0")
    assert row is not None and row.state == "PLANNED"
    count = cloud.sqs.get_queue_attributes(QueueUrl=cloud.jobs_queue, AttributeNames=["All"])["Attributes"]
    assert count["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_a_long_queue_is_failed_in_portions(cloud: Cloud, workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    open_breaker(cloud, workers)
    monkeypatch.setattr(refusal, "ROUNDS", 2)
    enqueue(cloud, 25)
    nudge(SWEEP)
    assert len(cloud.stepfunctions.answers) == 20
    assert cloud.messages(cloud.nudges) == [SWEEP]
    nudge(SWEEP)
    assert len(cloud.stepfunctions.answers) == 25


def test_without_an_error_of_the_worker_the_reason_of_batch_is_used(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    fail_worker(cloud, workers, error=None)
    nudge(SWEEP)
    reason = workers.pipeline().reason
    assert reason is not None and reason.code == "EngineFailed"
    assert "Essential container in task exited" in reason.message


def test_a_committed_job_is_left_to_be_delivered(cloud: Cloud, workers: Workers) -> None:
    enqueue(cloud)
    jobs = Jobs(cloud.table)
    jobs.open_attempt("job-0", Attempt(id="a", worker="w", solo=False))
    output = Output(uri="s3://assets/d.json", size=1, content_type="application/json")
    jobs.commit("job-0", "a", Result(job_id="job-0", outputs=[output]))
    open_breaker(cloud, workers)
    assert cloud.stepfunctions.answers == []
    count = cloud.sqs.get_queue_attributes(QueueUrl=cloud.jobs_queue, AttributeNames=["All"])["Attributes"]
    assert count["ApproximateNumberOfMessages"] + count["ApproximateNumberOfMessagesNotVisible"] in ("10", "01")


def test_a_half_open_breaker_starts_one_worker_and_the_queue_waits_for_it(cloud: Cloud, workers: Workers) -> None:
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    open_breaker(cloud, workers)
    let_pauses_pass(workers)
    enqueue(cloud, 20)
    nudge(PLANNED)
    nudge(SWEEP)
    assert len(cloud.batch.submitted) == 4
    assert cloud.stepfunctions.answers == []


def test_a_worker_that_serves_closes_the_half_open_breaker(cloud: Cloud, workers: Workers) -> None:
    open_breaker(cloud, workers)
    let_pauses_pass(workers)
    nudge(PLANNED)
    workers.started("job-3")
    workers.ready("job-3")
    nudge(SWEEP)
    assert workers.pipeline().open, "a loaded model proves nothing"
    workers.seen("job-3", completed=1)
    nudge(SWEEP)
    row = workers.pipeline()
    assert (row.open, row.failures, row.retry_at, row.reason) == (False, 0, None, None)


def test_an_older_worker_that_serves_does_not_close_the_breaker(cloud: Cloud, workers: Workers) -> None:
    nudge(PLANNED)
    workers.started("job-0")
    workers.seen("job-0", completed=9)
    nudge(SWEEP)
    workers.measured(seconds_per_unit=100, cold_start_seconds=1)
    enqueue(cloud, 20)
    nudge(SWEEP)
    cloud.batch.jobs["job-1"]["status"] = "FAILED"
    nudge(SWEEP)
    nudge(SWEEP)
    assert workers.pipeline().failures == 1


def test_the_end_of_a_worker_without_a_row_counts(cloud: Cloud, workers: Workers) -> None:
    ended = event("batch_job_failed")
    worker = ended["detail"]["jobId"]
    cloud.batch.jobs[worker] = ended["detail"]
    nudge(ended)
    row = workers.pipeline()
    assert row.failures == 1
    assert row.reason is not None and "CannotPullContainerError" in row.reason.message
    nudge(ended)
    assert workers.pipeline().failures == 1


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

    def test_an_empty_queue_corrects_the_totals_after_some_minutes(self, cloud: Cloud, totals) -> None:
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


def test_a_worker_of_an_outdated_commit_is_replaced(cloud: Cloud, workers: Workers) -> None:
    enqueue(cloud)
    nudge(PLANNED)
    workers.started("job-0")
    workers.loaded("job-0", "nvidia/Cosmos-Reason2-2B", "main", "1" * 40)
    workers.ready("job-0")
    workers.revisions.record("nvidia/Cosmos-Reason2-2B", "main", "1" * 40)
    nudge(SWEEP)
    row = workers.get("job-0")
    assert row is not None and not row.must_drain
    workers.revisions.record("nvidia/Cosmos-Reason2-2B", "main", "2" * 40, unless_since=datetime.now(UTC))
    nudge(SWEEP)
    row = workers.get("job-0")
    assert row is not None and row.must_drain
    assert len(cloud.batch.submitted) == 2
