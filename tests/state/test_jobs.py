"""A job's row: attempts are counted as they should be, and the end is decided once."""

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, ConditionFailed, JobRow, Jobs, Table
from tests.state.jobs import make_job

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
    found = jobs.get("j")
    assert found is not None
    return found


def test_planned_again_it_stays_as_it_is(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.create(make_job("j"))
    found = row(jobs)
    assert (found.state, found.attempts, found.open_attempt, found.worker) == ("RUNNING", 1, SHARED, "w1")
    assert (found.input, found.document) == ("s3://assets/clip.mp4", "s3://assets/j.json")
    assert jobs.get("never planned") is None


def test_given_back_it_has_lost_no_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.undo_attempt("j", "shared")
    found = row(jobs)
    assert (found.state, found.attempts, found.open_attempt, found.suspect) == ("PLANNED", 0, None, False)


def test_given_back_by_a_worker_that_is_late_it_stays_the_others(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    jobs.undo_attempt("j", "shared")
    assert row(jobs).open_attempt == SOLO
    assert row(jobs).attempts == 2


@pytest.mark.parametrize(("attempt", "counted"), [(SHARED, 0), (SOLO, 1)])
def test_a_death_counts_only_if_it_ran_alone(jobs: Jobs, attempt: Attempt, counted: int) -> None:
    found = jobs.settle_lost(jobs.open_attempt("j", attempt))
    assert (found.attempts, found.suspect, found.open_attempt, found.state) == (counted, True, None, "PLANNED")


def test_two_who_settle_one_loss_settle_it_once(jobs: Jobs) -> None:
    lost = jobs.open_attempt("j", SHARED)
    jobs.settle_lost(lost)
    assert jobs.settle_lost(lost).attempts == 0


def test_an_engines_failure_is_spent_and_makes_a_suspect(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.spend_attempt("j", "shared", ERROR)
    found = row(jobs)
    assert (found.attempts, found.suspect, found.state, found.last_error) == (1, True, "PLANNED", ERROR)


def test_one_attempt_wins(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    assert jobs.commit("j", "solo", GOOD).winner == "solo"
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", BAD)
    with pytest.raises(ConditionFailed):
        jobs.open_attempt("j", SHARED)
    found = row(jobs)
    assert (found.state, found.result, found.open_attempt) == ("COMMITTED", GOOD, None)


@pytest.mark.parametrize(("error", "state"), [(None, "SUCCEEDED"), (ERROR, "FAILED")])
def test_told_twice_it_ended_once(jobs: Jobs, error: Error | None, state: str) -> None:
    jobs.commit("j", "a", GOOD)
    jobs.finish("j", error)
    jobs.finish("j", error)
    assert row(jobs).state == state
    assert "calledBack" in row(jobs).stages


@pytest.mark.parametrize("cancelled", [True, False])
def test_once_closed_no_attempt_can_begin(jobs: Jobs, cancelled: bool) -> None:
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


def test_finishing_what_never_was_makes_no_row(jobs: Jobs) -> None:
    jobs.finish("other", None)
    jobs.close("other", BAD, cancelled=True)
    assert jobs.get("other") is None


def test_a_newer_row_can_be_read(jobs: Jobs, table: Table) -> None:
    table.update("job#j", "job", "SET #fromTheFuture = :yes", {"yes": True})
    jobs.stamp("j", "received")
    assert "received" in row(jobs).stages
