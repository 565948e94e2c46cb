"""Workers that fail, and the circuit breaker that `scale` opens and closes for them."""

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, Jobs, PipelineRow, Workers
from lambdas.handlers.scale import handler
from lambdas.reporting import refusal
from tests.lambdas.cloud import DEFINITION, SMALL, Cloud, event, sqs_batch
from tests.lambdas.scaling.pipeline_steps import (
    PLANNED,
    SWEEP,
    UNLOADABLE,
    UNREACHABLE,
    enqueue,
    fail_worker,
    let_pauses_pass,
    nudge,
    open_breaker,
)

pytestmark = pytest.mark.usefixtures("deployed_scale")


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
    """Workers that had loaded crash: one with several jobs, then again and again with that one job alone."""
    enqueue(cloud)
    for number in range(5):
        let_pauses_pass(workers)
        nudge(PLANNED)
        assert len(cloud.batch.submitted) == number + 1
        workers.started(f"job-{number}")
        workers.ready(f"job-{number}")
        if number == 0:
            workers.began_several_jobs(f"job-{number}")
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


def test_crashes_with_several_jobs_are_counted_across_calls(cloud: Cloud, workers: Workers) -> None:
    enqueue(cloud)
    for number in range(10):
        nudge(PLANNED)
        workers.started(f"job-{number}")
        workers.ready(f"job-{number}")
        workers.began_several_jobs(f"job-{number}")
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
