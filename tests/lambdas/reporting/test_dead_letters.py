"""`dead_letter` answers the caller of each dead letter, and counts it."""

import json
from collections.abc import Callable

import pytest

from cosmos_batch.contract.environment import DeadLetterEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import JobMessage
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state import Attempt, ItemJobs, Jobs, RunRow, Runs, Watcher
from lambdas.handlers.dead_letter import handler
from lambdas.reporting.refusal import refuse_message
from tests.lambdas.cloud import SMALL, Cloud, sqs_batch
from tests.support.jobs import make_job

LETTER = {"schemaVersion": 2, "taskToken": "token-1", "job": {"jobId": "job-1", "fromTheFuture": True}}


@pytest.fixture(autouse=True)
def _environment(configure: Callable[..., None]) -> None:
    configure(DeadLetterEnvironment)


@pytest.fixture
def jobs(cloud: Cloud) -> Jobs:
    jobs = Jobs(cloud.table)
    jobs.create(make_job("job-1"))
    return jobs


def test_a_job_that_no_worker_began_fails_with_an_internal_error(
    cloud: Cloud, jobs: Jobs, lines: Callable[[], str]
) -> None:
    assert handler(sqs_batch(LETTER), None) == {"batchItemFailures": []}
    [answer] = cloud.stepfunctions.answers
    assert (answer["taskToken"], answer["error"]) == ("token-1", "Internal")
    assert Error.model_validate_json(answer["cause"]).remedy
    row = jobs.get("job-1")
    assert row is not None and row.state == "FAILED"
    logged = lines()
    [metric] = [json.loads(line) for line in logged.splitlines() if "_aws" in line]
    assert (metric["pipeline"], metric["DeadLetters"]) == (SMALL, 1)
    assert "token-1" not in logged


def test_a_job_that_an_engine_began_fails_with_an_engine_error(cloud: Cloud, jobs: Jobs) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=True))
    handler(sqs_batch(LETTER), None)
    assert cloud.stepfunctions.answers[0]["error"] == "EngineFailed"


def test_the_error_says_if_the_answer_could_not_be_delivered(cloud: Cloud, jobs: Jobs) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=True))
    output = Output(uri="s3://assets/d.json", size=1, content_type="application/json")
    jobs.commit("job-1", "a", Result(job_id="job-1", outputs=[output]))
    handler(sqs_batch(LETTER), None)
    [answer] = cloud.stepfunctions.answers
    assert answer["error"] == "Internal" and "delivered" in answer["cause"]
    row = jobs.get("job-1")
    assert row is not None and row.state == "FAILED"


def test_a_job_that_was_answered_before_is_not_answered_again(cloud: Cloud, jobs: Jobs) -> None:
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=True))
    output = Output(uri="s3://assets/d.json", size=1, content_type="application/json")
    jobs.commit("job-1", "a", Result(job_id="job-1", outputs=[output]))
    jobs.finish("job-1", None)
    handler(sqs_batch(LETTER), None)
    assert cloud.stepfunctions.answers == []


def test_a_result_that_a_worker_delivers_at_that_moment_stays(
    cloud: Cloud, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends the job after the dead letter's row was read, and before the dead letter ends it."""
    jobs.open_attempt("job-1", Attempt(id="a", worker="w", solo=True))
    result = Result(job_id="job-1", outputs=[Output(uri="s3://assets/d.json", size=1, content_type="application/json")])
    jobs.commit("job-1", "a", result)
    monkeypatch.setattr(cloud.stepfunctions, "send_task_failure", lambda **_: jobs.finish("job-1", None))
    assert handler(sqs_batch(LETTER), None) == {"batchItemFailures": []}
    row = jobs.get("job-1")
    assert row is not None and (row.state, row.result) == ("SUCCEEDED", result)


def test_the_row_stays_open_until_the_caller_is_answered(cloud: Cloud, jobs: Jobs) -> None:
    cloud.stepfunctions.refusal = "ThrottlingException"
    assert handler(sqs_batch(LETTER), None) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    row = jobs.get("job-1")
    assert row is not None and row.state == "PLANNED", "a worker would drop a closed one, and nobody would be told"
    cloud.stepfunctions.refusal = None
    handler(sqs_batch(LETTER), None)
    assert len(cloud.stepfunctions.answers) == 1


def test_a_dead_letter_is_handled_again_after_a_crash_before_the_row_was_closed(
    cloud: Cloud, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crash:
        crash.setattr(Jobs, "close", lambda *_, **__: 1 / 0)
        assert handler(sqs_batch(LETTER), None) == {"batchItemFailures": [{"itemIdentifier": "m0"}]}
    cloud.stepfunctions.refusal = "TaskTimedOut"
    assert handler(sqs_batch(LETTER), None) == {"batchItemFailures": []}
    row = jobs.get("job-1")
    assert row is not None and row.state == "FAILED"


def test_the_caller_of_a_job_without_a_row_is_answered(cloud: Cloud) -> None:
    handler(sqs_batch(LETTER), None)
    assert cloud.stepfunctions.answers[0]["taskToken"] == "token-1"


@pytest.mark.parametrize("letter", ["no json", "[]", "{}", '{"job": {}}'])
def test_an_unreadable_dead_letter_is_counted_and_dropped(cloud: Cloud, letter: str, lines: Callable[[], str]) -> None:
    assert handler(sqs_batch(letter), None) == {"batchItemFailures": []}
    assert '"DeadLetters": 1' in lines()


def test_a_dead_letter_of_an_item_fails_it_in_its_shard_and_answers_that(cloud: Cloud) -> None:
    runs, jobs = Runs(cloud.table), ItemJobs(cloud.table)
    job = make_job("item-1")
    jobs.watch(job, Watcher("r", "00000", 0), retry=False)
    runs.shards.feed(ShardRef(run="r", shard="00000", pipeline=SMALL, items=1), "shard-token", 0.0)
    letter = JobMessage(schema_version=5, run="r", job=job).model_dump_json()
    assert handler(sqs_batch(letter, letter), None) == {"batchItemFailures": []}
    shard, row = runs.shards.get("r", "00000"), jobs.get("item-1")
    assert shard is not None and row is not None
    assert (shard.failed, row.state) == (1, "FAILED")
    assert {answer["taskToken"] for answer in cloud.stepfunctions.answers} == {"shard-token"}


def test_items_of_a_queue_without_workers_wait_and_hold_their_runs(cloud: Cloud) -> None:
    runs, jobs = Runs(cloud.table), ItemJobs(cloud.table)
    job = make_job("item-1")
    for run in ("r1", "r2"):
        runs.create(RunRow(id=run, state="RUNNING", items=2, started_at="2026-11-01T00:00:00Z"))
        runs.shards.feed(ShardRef(run=run, shard="00000", pipeline=SMALL, items=2), f"token-of-{run}", 0.0)
        jobs.sent(jobs.watch(job, Watcher(run, "00000", 0), retry=False)[1])
    reason = Error(code="ModelUnavailable", message="No licence.", remedy="Accept it.")
    assert refuse_message(JobMessage(schema_version=5, run="r1", job=job).model_dump_json(), reason, cloud.table)
    row = jobs.get("item-1")
    assert row is not None
    assert (row.state, row.is_sent) == ("PLANNED", False), "whoever goes on sends it again"
    for run in ("r1", "r2"):
        found, shard = runs.get(run), runs.shards.get(run, "00000")
        assert found is not None and shard is not None
        assert (found.state, found.reason) == ("HELD", "No licence. Accept it.")
        assert (shard.state, shard.failed, shard.is_awaited) == ("SKIPPED", 0, False)
    assert {answer["taskToken"] for answer in cloud.stepfunctions.answers} == {"token-of-r1", "token-of-r2"}


def test_an_item_whose_worker_was_lost_is_put_back_and_one_in_a_workers_hand_is_not(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, jobs = Runs(cloud.table), ItemJobs(cloud.table)
    runs.create(RunRow(id="r", state="RUNNING", items=1, started_at="2026-11-01T00:00:00Z"))
    job = make_job("item-1")
    jobs.sent(jobs.watch(job, Watcher("r", "00000", 0), retry=False)[1])
    jobs.open_attempt("item-1", Attempt(id="a", worker="w", solo=False))
    message = JobMessage(schema_version=5, run="r", job=job).model_dump_json()
    reason = Error(code="ModelUnavailable", message="No licence.", remedy="Accept it.")
    with monkeypatch.context() as busy:
        busy.setattr(Jobs, "close_lost_attempt", lambda *_: None)
        assert not refuse_message(message, reason, cloud.table)
    assert refuse_message(message, reason, cloud.table)
    row = jobs.get("item-1")
    assert row is not None and (row.state, row.is_sent) == ("PLANNED", False)
