"""The totals of waiting jobs and their weight in the pipeline's row, also after repeated or interrupted steps."""

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Attempt, ConditionFailed, Jobs, Table, Workers
from tests.support.jobs import make_job

ERROR = Error(code="TimedOut", message="m", remedy="r")


@pytest.fixture
def jobs(table: Table) -> Jobs:
    return Jobs(table)


def waiting(table: Table) -> tuple[int, float]:
    row = Workers(table, make_job("any").pipeline).pipeline()
    return row.waiting_jobs, row.waiting_weight


def plan(jobs: Jobs, *names: str) -> None:
    for name in names:
        jobs.create(make_job(name))


def test_a_job_that_is_planned_twice_counts_once(jobs: Jobs, table: Table) -> None:
    plan(jobs, "a", "b", "a")
    assert waiting(table) == (2, 2.0)


def test_a_job_with_two_attempts_is_subtracted_once(jobs: Jobs, table: Table) -> None:
    plan(jobs, "a", "b")
    jobs.open_attempt("a", Attempt(id="1", worker="w", solo=False))
    jobs.commit("a", "1", Result(job_id="a", error=ERROR))
    with pytest.raises(ConditionFailed):
        jobs.commit("a", "2", Result(job_id="a", error=ERROR))
    jobs.finish("a", ERROR)
    jobs.close("a", Result(job_id="a", error=ERROR), cancelled=False)
    assert waiting(table) == (1, 1.0)


def test_a_job_that_is_closed_undecided_is_subtracted(jobs: Jobs, table: Table) -> None:
    """Jobs are closed by stopped executions, deadlines, dead letters and refused queues, and each may come twice."""
    plan(jobs, "a", "b")
    for _ in range(2):
        jobs.close("a", Result(job_id="a", error=ERROR), cancelled=True)
    assert waiting(table) == (1, 1.0)


def test_a_job_that_is_given_back_still_counts(jobs: Jobs, table: Table) -> None:
    plan(jobs, "a")
    jobs.open_attempt("a", Attempt(id="1", worker="w", solo=False))
    jobs.undo_attempt("a", "1")
    assert waiting(table) == (1, 1.0)


def test_a_row_of_version_0f4e7e0_has_no_weight_to_subtract(jobs: Jobs, table: Table) -> None:
    plan(jobs, "new", "old")
    table.update("job#old", "job", "REMOVE #weight")
    before = waiting(table)
    jobs.close("old", Result(job_id="old", error=ERROR), cancelled=False)
    assert waiting(table) == before
