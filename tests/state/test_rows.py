"""The rows of callbacks, reserved keys, published ends, workers and breakers."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.job import OutputKey
from cosmos_batch.state import Callbacks, ConditionFailed, PipelineRow, Reports, ReservedKeys, Table, Workers

ERROR = Error(code="NoCapacity", message="m", remedy="r", retryable=True)
KEY = OutputKey(bucket="assets", key="a/b.json")


@pytest.fixture
def workers(table: Table) -> Workers:
    return Workers(table, "p")


def test_a_task_token_is_deleted_once_it_is_answered(table: Table) -> None:
    callbacks = Callbacks(table)
    assert callbacks.waiting("j") is None
    callbacks.keep("j", "token")
    callbacks.keep("j", "of a repeated request")
    assert callbacks.waiting("j") == "token"
    callbacks.answered("j")
    assert callbacks.waiting("j") is None
    assert "token" not in str(table.get("job#j", "callback"))
    callbacks.keep("j", "token")
    assert callbacks.waiting("j") is None


def test_a_key_is_reserved_for_one_job(table: Table) -> None:
    outputs = ReservedKeys(table)
    assert outputs.owner("assets", "a/b.json") is None
    assert outputs.reserve(KEY, "one")
    assert outputs.reserve(KEY, "one")
    assert not outputs.reserve(KEY, "two")
    assert outputs.reserve(OutputKey(bucket="plain", key="a/b.json"), "two")
    assert outputs.owner("assets", "a/b.json") == "one"


def test_of_many_concurrent_jobs_one_reserves_the_key(table: Table) -> None:
    outputs = ReservedKeys(table)
    with ThreadPoolExecutor(8) as pool:
        had = list(pool.map(lambda number: outputs.reserve(KEY, f"job-{number}"), range(16)))
    assert had.count(True) == 1


def test_the_end_of_a_job_is_published_once(table: Table) -> None:
    reports = Reports(table)
    assert not reports.published("j")
    reports.note("j")
    reports.note("j")
    assert reports.published("j")


def test_a_worker_from_submission_to_its_end(workers: Workers, table: Table) -> None:
    workers.submitted("w", "definition:1")
    assert workers.list()[0].state == "SUBMITTED"
    workers.started("w")
    row = workers.ready("w")
    assert (row.state, row.job_definition, set(row.stages)) == ("READY", "definition:1", {"started", "modelLoaded"})
    assert not workers.seen("w", 3).must_drain
    workers.must_drain("w")
    assert workers.seen("w", 4).must_drain
    workers.draining("w")
    assert workers.ended("w", ERROR, completed=5)
    assert not workers.ended("w")
    [row] = workers.list()
    assert (row.state, row.error, row.completed, row.counted) == ("ENDED", ERROR, 5, False)
    workers.counted("w")
    assert workers.list()[0].counted
    item = table.get("pipeline#p", "worker#w")
    assert item is not None
    assert item["judged"], "an update of a deployed system counts no worker anew"
    assert 86_000 < item["expiresAt"] - time.time() <= 86_400


def test_a_worker_may_start_before_its_submission_is_noted(workers: Workers) -> None:
    workers.started("w")
    workers.submitted("w", "definition:1")
    row = workers.get("w")
    assert row is not None
    assert (row.state, row.job_definition) == ("STARTING", "definition:1")
    assert row.submitted_at is not None and "started" in row.stages


def test_asking_a_worker_without_a_row_makes_no_worker(workers: Workers) -> None:
    for ask in (workers.must_drain, lambda worker: workers.keep(worker, True)):
        with pytest.raises(ConditionFailed):
            ask("gone")
    assert workers.list() == []


def test_workers_of_pipelines_are_separate(workers: Workers, table: Table) -> None:
    workers.submitted("w", "definition:1")
    workers.measured(seconds_per_unit=1.5)
    assert Workers(table, "other").list() == []
    assert workers.get("other") is None
    assert [row.worker for row in workers.list()] == ["w"]


def test_a_breaker_is_read_as_written(workers: Workers) -> None:
    assert workers.pipeline() == PipelineRow()
    workers.measured(seconds_per_unit=1.5, cold_start_seconds=90)
    written = PipelineRow(
        failures=3,
        retry_at="2026-11-12T00:00:00+00:00",
        open=True,
        reason=ERROR,
        crashes_with_several_jobs=2,
        culprits=["a"],
    )
    workers.set_breaker(written)
    row = workers.pipeline()
    assert row == written.model_copy(update={"seconds_per_unit": 1.5, "cold_start_seconds": 90})
    workers.set_breaker(PipelineRow())
    assert workers.pipeline() == PipelineRow(seconds_per_unit=1.5, cold_start_seconds=90)


def test_rows_of_commit_0f4e7e0_are_still_read(workers: Workers, table: Table) -> None:
    """An old pace may be a latency, so it is not read. An old breaker must not fail jobs for lack of capacity."""
    error = Error(code="NoCapacity", message="CAPACITY:", remedy="r", retryable=True).model_dump_json()
    table.put_new(
        "pipeline#p",
        "pipeline",
        {
            "failures": 16,
            "retryAt": "2026-11-12T00:00:00+00:00",
            "open": True,
            "reason": error,
            "culprits": ["a"],
            "companyDeaths": 2,
            "wanted": 3,
            "secondsPerItem": 0.9,
            "coldStartSeconds": 90,
        },
    )
    table.put_new(
        "pipeline#p",
        "worker#w",
        {
            "worker": "w",
            "state": "ENDED",
            "lastSeen": "2026-11-12T00:00:00+00:00",
            "error": error,
            "completed": 0,
            "stages": {},
        },
    )
    row, [worker] = workers.pipeline(), workers.list()
    assert (row.failures, row.open, row.refuses, row.seconds_per_unit) == (16, True, False, None)
    assert (worker.state, worker.cause) == ("ENDED", None)
    assert worker.error is not None and worker.error.code == "NoCapacity"
