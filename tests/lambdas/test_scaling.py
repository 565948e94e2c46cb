"""How many workers, and when to stop trying."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import PipelineRow
from lambdas.batch_reason import error_of_batch
from lambdas.scaling import Death, judged, may_start, wanted_workers, workers_to_start

NOW = datetime(2026, 11, 12, tzinfo=UTC)
SETTINGS = ScalingSettings(breaker_failures=3, breaker_delay_seconds=60, breaker_probe_seconds=900)
ERROR = Error(code="EngineFailed", message="m", remedy="r")
DEATH = Death(ERROR)
COMPANY = Death(ERROR, in_company=True)


def pace(seconds_per_item: float = 10, cold_start_seconds: float = 100) -> PipelineRow:
    return PipelineRow(seconds_per_item=seconds_per_item, cold_start_seconds=cold_start_seconds)


@pytest.mark.parametrize(
    ("backlog", "live", "wanted"),
    [
        (0, 0, 0),
        (0, 3, 0),
        (1, 0, 1),
        (60, 0, 1),
        (61, 0, 2),
        (200, 0, 4),
        (10_000, 0, 8),
        (61, 1, 2),
        (200, 2, 4),
        # The live ones are done before a new one has started.
        (10, 1, 1),
        (80, 8, 2),
    ],
)
def test_wanted(backlog: int, live: int, wanted: int) -> None:
    assert wanted_workers(backlog, live, pace(), target_drain_seconds=600, most=8) == wanted


def test_no_worker_whose_cold_start_outlasts_the_work() -> None:
    # 40 items of 10 s: 200 s for two workers.
    assert wanted_workers(40, 2, pace(cold_start_seconds=199), target_drain_seconds=60, most=8) == 7
    assert wanted_workers(40, 2, pace(cold_start_seconds=200), target_drain_seconds=60, most=8) == 2


def test_an_item_cannot_be_shared() -> None:
    assert wanted_workers(2, 0, pace(seconds_per_item=5000), target_drain_seconds=600, most=8) == 2


def test_before_anything_was_measured_one_file_is_one_worker() -> None:
    assert wanted_workers(1, 0, PipelineRow(), target_drain_seconds=600, most=8) == 1
    assert wanted_workers(1, 1, PipelineRow(), target_drain_seconds=600, most=8) == 1


@given(st.integers(0, 10**6), st.integers(0, 50), st.floats(0.001, 1e4), st.floats(0, 1e4), st.integers(1, 40))
def test_always_within_bounds(backlog: int, live: int, item: float, cold: float, most: int) -> None:
    wanted = wanted_workers(backlog, live, pace(item, cold), target_drain_seconds=600, most=most)
    assert (backlog > 0) <= wanted <= min(most, backlog)


def test_failures_delay_twice_as_long_each_time_and_then_open() -> None:
    breaker = PipelineRow()
    pauses = []
    for _ in range(4):
        breaker = judged(breaker, served=False, deaths=[DEATH], settings=SETTINGS, now=NOW)
        assert breaker.retry_at is not None
        pauses.append((datetime.fromisoformat(breaker.retry_at) - NOW).total_seconds())
    assert pauses == [60, 120, 900, 900]
    assert (breaker.open, breaker.failures, breaker.reason) == (True, 4, ERROR)


def test_it_opens_at_the_limit_and_not_before() -> None:
    assert not judged(PipelineRow(failures=1), False, [DEATH], SETTINGS, NOW).open
    assert judged(PipelineRow(failures=2), False, [DEATH], SETTINGS, NOW).open
    assert judged(PipelineRow(), False, [DEATH] * 3, SETTINGS, NOW).open


def test_a_worker_that_served_closes_it() -> None:
    was_open = PipelineRow(failures=5, open=True, retry_at=NOW.isoformat(), reason=ERROR, seconds_per_item=2)
    assert judged(was_open, True, [], SETTINGS, NOW) == PipelineRow(seconds_per_item=2)
    assert judged(was_open, True, [DEATH], SETTINGS, NOW).failures == 1


def test_nothing_learnt_changes_nothing() -> None:
    breaker = PipelineRow(failures=2, retry_at=NOW.isoformat())
    assert judged(breaker, False, [], SETTINGS, NOW) is breaker


def test_nothing_starts_before_its_time_and_then_one_at_a_time() -> None:
    later = (NOW + timedelta(seconds=60)).isoformat()
    failing = PipelineRow(failures=1, retry_at=later)
    after = NOW + timedelta(seconds=60)
    assert not may_start(failing, NOW)
    assert workers_to_start(4, 0, 0, failing, NOW) == 0
    assert workers_to_start(4, 0, 0, failing, after) == 1
    assert workers_to_start(4, 1, 0, failing, after) == 0
    assert workers_to_start(4, 2, 2, failing, after) == 1
    assert workers_to_start(4, 1, 0, PipelineRow(), NOW) == 3
    assert workers_to_start(1, 3, 0, PipelineRow(), NOW) == 0


@pytest.mark.parametrize(
    ("job", "code"),
    [
        ({"statusReason": "Host EC2 (instance i-0a) terminated."}, "NoCapacity"),
        ({"statusReason": "CannotPullContainerError: pull image manifest, mount denied"}, "NoCapacity"),
        ({"statusReason": "RUNNABLE for more than 60 minutes: the amount exceeds your vCPU limit"}, "NoCapacity"),
        ({"statusReason": "Requested amount of memory"}, "NoCapacity"),
        ({"statusReason": "failed to mount the volume"}, "ModelUnavailable"),
        ({"statusReason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - too large"}, "NoCapacity"),
        ({"statusReason": "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - none"}, "NoCapacity"),
        ({"statusReason": "ResourceInitializationError: failed to invoke EFS utils"}, "ModelUnavailable"),
        ({"statusReason": "Essential container in task exited", "container": {"exitCode": 139}}, "EngineFailed"),
        (
            {"statusReason": "Task failed", "container": {"reason": "OutOfMemoryError: Container killed"}},
            "EngineFailed",
        ),
        ({"statusReason": "something new"}, "NoCapacity"),
        ({}, "NoCapacity"),
        (None, "NoCapacity"),
    ],
)
def test_what_batch_says_becomes_a_reason(job: dict[str, object] | None, code: str) -> None:
    error = error_of_batch("job-1", job)
    assert error.code == code
    assert error.remedy
    assert str((job or {}).get("statusReason", "")) in error.message


def test_a_death_in_company_is_the_jobs_account_and_not_the_breakers() -> None:
    breaker = judged(PipelineRow(failures=1), False, [COMPANY], SETTINGS, NOW)
    assert breaker == PipelineRow(failures=1, company_deaths=1)


def test_deaths_in_company_without_end_open_the_breaker() -> None:
    breaker = PipelineRow()
    for _ in range(9):
        breaker = judged(breaker, False, [COMPANY], SETTINGS, NOW)
    assert not breaker.open
    breaker = judged(breaker, False, [COMPANY], SETTINGS, NOW)
    assert breaker.open and breaker.reason == ERROR
    assert not may_start(breaker, NOW)
    assert workers_to_start(4, 0, 0, breaker, NOW + timedelta(seconds=900)) == 1, "half-open: one tries"
    later = judged(breaker, False, [COMPANY], SETTINGS, NOW + timedelta(seconds=900))
    assert later.open and not may_start(later, NOW + timedelta(seconds=1799))
    unloadable = judged(breaker, False, [DEATH], SETTINGS, NOW)
    assert unloadable.retry_at == (NOW + timedelta(seconds=900)).isoformat(), "an open breaker has one pause"
    assert judged(breaker, True, [], SETTINGS, NOW) == PipelineRow()


def test_a_worker_that_dies_with_no_job_begun_counts_and_delays_though_it_had_loaded() -> None:
    breaker = judged(PipelineRow(), False, [Death(ERROR, alone_with=None, in_company=False)], SETTINGS, NOW)
    assert (breaker.failures, breaker.retry_at) == (1, (NOW + timedelta(seconds=60)).isoformat())


def test_one_poison_is_one_failure_however_often_it_kills() -> None:
    breaker = PipelineRow()
    for _ in range(5):
        breaker = judged(breaker, False, [Death(ERROR, alone_with="poison", in_company=True)], SETTINGS, NOW)
    assert (breaker.failures, breaker.open, breaker.retry_at) == (1, False, None)


def test_an_engine_that_dies_of_every_job_opens_the_breaker() -> None:
    breaker = PipelineRow()
    for job in ("a", "a", "b", "b", "c"):
        breaker = judged(breaker, False, [Death(ERROR, alone_with=job)], SETTINGS, NOW)
    assert breaker.open


def test_who_serves_clears_the_culprits() -> None:
    breaker = PipelineRow(failures=1, culprits=["a"])
    assert judged(breaker, True, [], SETTINGS, NOW).culprits == []
