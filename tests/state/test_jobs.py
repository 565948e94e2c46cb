"""The row of a job: which attempts count, and that its end is decided once."""

import json
from collections.abc import Callable, Iterator

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, ConditionFailed, JobRow, Jobs, Table, Waiting
from tests.state.conftest import client
from tests.support.jobs import make_job

SHARED, SOLO = Attempt(id="shared", worker="w1", solo=False), Attempt(id="solo", worker="w2", solo=True)
ERROR = Error(code="EngineFailed", message="m", remedy="r")
GOOD = Result(job_id="j", outputs=[Output(uri="s3://assets/j.json", size=1, content_type="application/json")])
BAD = Result(job_id="j", error=ERROR)


@pytest.fixture
def jobs(table: Table) -> Jobs:
    jobs = Jobs(table)
    jobs.create(make_job("j"))
    return jobs


def row(jobs: Jobs) -> JobRow:
    job_row = jobs.get("j")
    assert job_row is not None
    return job_row


def test_a_job_that_is_planned_again_keeps_its_row(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.create(make_job("j"))
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.worker) == ("RUNNING", 1, SHARED, "w1")
    assert (job_row.input, job_row.document) == ("s3://assets/clip.mp4", "s3://assets/j.json")
    assert jobs.get("never planned") is None


@pytest.fixture
def lost_response() -> Iterator[list[str]]:
    """Write the first UpdateItem but lose its response, so that botocore sends it again. The list has each response."""
    answers: list[str] = []

    def lose_the_first(response: object, **_: object) -> int | None:
        answers.append("lost" if not answers else "arrived")
        return 0 if answers == ["lost"] else None

    client().meta.events.register_first("needs-retry.dynamodb.UpdateItem", lose_the_first)
    yield answers
    client().meta.events.unregister("needs-retry.dynamodb.UpdateItem", lose_the_first)


def test_an_attempt_counts_once_if_its_response_was_lost(jobs: Jobs, lost_response: list[str]) -> None:
    opened = jobs.open_attempt("j", SHARED)
    assert lost_response == ["lost", "arrived"]
    assert (opened.attempts, opened.open_attempt) == (1, SHARED)


def test_a_repeated_attempt_does_not_replace_a_later_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    assert jobs.open_attempt("j", SHARED).open_attempt == SOLO
    assert row(jobs).attempts == 2


@pytest.mark.parametrize(
    ("end", "attempts"),
    [
        (lambda jobs: jobs.undo_attempt("j", "solo"), 1),
        (lambda jobs: jobs.spend_attempt("j", "solo", ERROR), 2),
        (lambda jobs: jobs.close_lost_attempt(row(jobs)), 2),
    ],
    ids=["taken back", "spent", "lost alone"],
)
def test_an_attempt_that_has_ended_may_be_opened_again(
    jobs: Jobs, end: Callable[[Jobs], object], attempts: int
) -> None:
    jobs.open_attempt("j", SOLO)
    end(jobs)
    assert row(jobs).opened == set()
    assert jobs.open_attempt("j", SOLO).attempts == attempts


def test_an_attempt_is_counted_in_a_row_of_an_older_version(jobs: Jobs, table: Table) -> None:
    old = Attempt(id="of-the-older-version", worker="w0", solo=False)
    values = {"attempt": old.model_dump(by_alias=True), "running": "RUNNING", "one": 1}
    table.update("job#j", "job", "SET #openAttempt = :attempt, #state = :running, #attempts = :one", values)
    assert jobs.open_attempt("j", SOLO).attempts == 2


def test_a_job_that_is_given_back_has_lost_no_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.undo_attempt("j", "shared")
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.suspect) == ("PLANNED", 0, None, False)


WAITING = Waiting(reason="It is busy.", until="2026-11-12T00:00:00+00:00")


def test_a_paused_job_has_lost_no_attempt_and_is_no_suspect(jobs: Jobs) -> None:
    for number, interrupted in enumerate((False, True, False)):
        attempt = Attempt(id=f"a{number}", worker="w", solo=number == 1)
        assert jobs.open_attempt("j", attempt).waiting is None, "it waits no more"
        jobs.pause("j", attempt.id, WAITING, interrupted)
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.suspect) == ("PLANNED", 0, None, False)
    assert (job_row.waiting, job_row.pauses, job_row.interruptions) == (WAITING, 3, 1)


def test_a_job_that_was_decided_meanwhile_is_not_paused(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.commit("j", "solo", GOOD)
    jobs.pause("j", "shared", WAITING, interrupted=False)
    assert (row(jobs).state, row(jobs).waiting) == ("COMMITTED", None)


def test_a_late_worker_cannot_undo_another_workers_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    jobs.undo_attempt("j", "shared")
    assert row(jobs).open_attempt == SOLO
    assert row(jobs).attempts == 2


@pytest.mark.parametrize(("attempt", "counted"), [(SHARED, 0), (SOLO, 1)])
def test_a_lost_attempt_counts_only_if_it_ran_alone(jobs: Jobs, attempt: Attempt, counted: int) -> None:
    job_row = jobs.close_lost_attempt(jobs.open_attempt("j", attempt))
    assert (job_row.attempts, job_row.suspect, job_row.open_attempt, job_row.state) == (counted, True, None, "PLANNED")


def test_two_workers_settle_a_lost_attempt_once(jobs: Jobs) -> None:
    lost = jobs.open_attempt("j", SHARED)
    jobs.close_lost_attempt(lost)
    assert jobs.close_lost_attempt(lost).attempts == 0


def test_a_failed_attempt_counts_and_makes_a_suspect(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.spend_attempt("j", "shared", ERROR)
    job_row = row(jobs)
    assert (job_row.attempts, job_row.suspect, job_row.state, job_row.last_error) == (1, True, "PLANNED", ERROR)


def test_a_single_attempt_of_a_job_wins(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    assert jobs.commit("j", "solo", GOOD).winner == "solo"
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", BAD)
    with pytest.raises(ConditionFailed):
        jobs.open_attempt("j", SHARED)
    job_row = row(jobs)
    assert (job_row.state, job_row.result, job_row.open_attempt) == ("COMMITTED", GOOD, None)


@pytest.mark.parametrize(("error", "state"), [(None, "SUCCEEDED"), (ERROR, "FAILED")])
def test_a_job_that_is_finished_twice_ended_once(jobs: Jobs, error: Error | None, state: str) -> None:
    jobs.commit("j", "a", GOOD)
    jobs.finish("j", error)
    jobs.finish("j", error)
    assert row(jobs).state == state
    assert row(jobs).result == (GOOD if error is None else BAD), "what could not be delivered is no result"
    assert "calledBack" in row(jobs).stages


@pytest.mark.parametrize(
    ("errors", "state", "result"), [((None, ERROR), "SUCCEEDED", GOOD), ((ERROR, None), "FAILED", BAD)]
)
def test_the_first_end_of_a_job_stays(jobs: Jobs, errors: tuple[Error | None, ...], state: str, result: Result) -> None:
    """A dead letter and a worker end the same job, in either order."""
    jobs.commit("j", "a", GOOD)
    for error in errors:
        jobs.finish("j", error)
    assert (row(jobs).state, row(jobs).result) == (state, result)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_closed_job_has_no_further_attempt(jobs: Jobs, cancelled: bool) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled)
    jobs.close("j", GOOD, cancelled)
    assert row(jobs).state == ("CANCELLED" if cancelled else "FAILED")
    assert row(jobs).result == BAD
    with pytest.raises(ConditionFailed):
        jobs.open_attempt("j", SOLO)


def test_a_cancelled_job_cannot_be_won_or_finished(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled=True)
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", GOOD)
    jobs.finish("j", None)
    assert row(jobs).state == "CANCELLED"


def test_a_failed_job_cannot_be_won(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled=False)
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", GOOD)


def test_a_committed_job_cannot_be_closed(jobs: Jobs) -> None:
    jobs.commit("j", "a", GOOD)
    jobs.close("j", BAD, cancelled=True)
    assert (row(jobs).state, row(jobs).result) == ("COMMITTED", GOOD)


def test_finishing_an_unknown_job_creates_no_row(jobs: Jobs) -> None:
    jobs.finish("other", None)
    jobs.close("other", BAD, cancelled=True)
    assert jobs.get("other") is None


def test_a_row_of_a_newer_version_can_be_read(jobs: Jobs, table: Table) -> None:
    table.update("job#j", "job", "SET #fromTheFuture = :yes", {"yes": True})
    jobs.stamp("j", "received")
    assert "received" in row(jobs).stages
    output = {"uri": "s3://assets/a.json", "size": 2, "contentType": "application/json", "alsoFromTheFuture": None}
    result = {"jobId": "j", "outputs": [output], "fromTheFuture": True}
    table.update("job#j", "job", "SET #result = :result", {"result": json.dumps(result)})
    stored = row(jobs).result
    assert stored is not None and stored.outputs[0].uri.endswith("/a.json")
