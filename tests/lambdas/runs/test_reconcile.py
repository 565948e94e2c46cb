"""Reconciliation answers shards whose last answer was lost, and counts items whose end nobody counted."""

from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.state import Attempt, count_item
from lambdas.runs import reconcile
from tests.lambdas.runs.conftest import RUN, RunFixture, run_sweep


def test_a_complete_shard_is_answered_again(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    assert bench.answered() == [], "the worker died before it answered"
    run_sweep(bench)
    assert bench.answered() == ["shard-token"]


def test_a_run_that_an_earlier_release_has_begun_is_swept(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.cloud.table.update("run#my-run", "run", "REMOVE #reservations, #chargedDollars")
    run_sweep(bench)
    assert bench.answered() == ["shard-token"]


def test_a_shard_in_progress_is_left_alone(bench: RunFixture) -> None:
    bench.started(bench.items("a", "b"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    run_sweep(bench)
    assert bench.answered() == []


def test_a_cancelled_run_waits_for_none_of_its_shards(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    bench.runs.cancel(RUN, "by a person")
    run_sweep(bench)
    assert bench.answered() == ["shard-token"]


def test_an_end_that_was_not_counted_is_found_in_a_stalled_shard(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STALLED", timedelta(0))
    bench.started(bench.items("a"))
    job = bench.sent()[0]["job"]["jobId"]
    bench.answer(job)
    bench.cloud.table.update("run#my-run", "shard#00000", "SET #succeeded = :none REMOVE #ended", {"none": 0})
    run_sweep(bench)
    assert bench.shard().succeeded == 1
    assert bench.answered() == ["shard-token"]
    assert count_item(bench.job_row(job), bench.runs)[0].succeeded == 1, "and is not counted twice"


def begun_after_deadline(bench: RunFixture, is_begun: bool) -> str:
    """Start a run of one item whose deadline has just passed; a worker has begun it, or none has received it."""
    bench.started(bench.items("a"))
    job: str = bench.sent()[0]["job"]["jobId"]
    if is_begun:
        bench.jobs.open_attempt(job, Attempt(id="a", worker="w", solo=False))
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat(timespec="milliseconds")
    bench.cloud.table.update(f"job#{job}", "job", "SET #deadline = :past", {"past": past})
    return job


def assert_timed_out(bench: RunFixture, job: str) -> None:
    assert bench.shard().failed == 1
    result = bench.job_row(job).result
    assert result is not None and result.error is not None and result.error.code == "TimedOut"


def test_an_item_that_no_worker_received_fails_at_its_deadline(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STALLED", timedelta(0))
    job = begun_after_deadline(bench, is_begun=False)
    run_sweep(bench)
    assert_timed_out(bench, job)


def test_an_item_that_a_worker_has_begun_is_left_to_it_for_a_while(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile, "STALLED", timedelta(0))
    job = begun_after_deadline(bench, is_begun=True)
    run_sweep(bench)
    assert bench.shard().failed == 0
    monkeypatch.setattr(reconcile, "LATE", timedelta(0))
    run_sweep(bench)
    assert_timed_out(bench, job)
