"""The breaker stops starting workers and fails waiting jobs, and Batch's reasons are classified for it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import Cause, PipelineRow
from lambdas.scaling.batch_reasons import end_by_batch
from lambdas.scaling.breaker import (
    KILLS_REPLACED_AT_ONCE,
    FailedWorker,
    breaker_after,
    may_start,
    without_lack_of_capacity,
    workers_to_start,
)

NOW = datetime(2026, 11, 12, tzinfo=UTC)
SETTINGS = ScalingSettings(breaker_failures=3, breaker_delay_seconds=60, breaker_probe_seconds=900)
PASSING = Error(code="ModelUnavailable", message="The Hub cannot be reached.", remedy="r", retryable=True)
PERMANENT = Error(code="ModelUnavailable", message="The licence was not accepted.", remedy="r")
PASSING_FAILURE = FailedWorker("passing", PASSING)
PERMANENT_FAILURE = FailedWorker("permanent", PERMANENT)
CRASH_WITH_SEVERAL_JOBS = FailedWorker("passing", PASSING, ran_several_jobs=True)


def killed_at(job: str | None) -> FailedWorker:
    """Return a worker that was killed while it had a job alone, or without one, several jobs."""
    return FailedWorker("killed", PASSING, alone_with=job, ran_several_jobs=job is None)


def after(*waves: list[FailedWorker], breaker: PipelineRow | None = None) -> PipelineRow:
    """Return the breaker after several looks, none of which found a worker that had completed a job."""
    breaker = breaker or PipelineRow()
    for failed in waves:
        breaker = breaker_after(breaker, served=False, failed=failed, settings=SETTINGS, now=NOW)
    return breaker


def pause_of(breaker: PipelineRow) -> float:
    assert breaker.retry_at is not None
    return (datetime.fromisoformat(breaker.retry_at) - NOW).total_seconds()


class TestPassingFailures:
    def test_pauses_grow_to_their_maximum_and_no_job_is_refused(self) -> None:
        breaker, pauses = PipelineRow(), []
        for _ in range(6):
            breaker = after([PASSING_FAILURE], breaker=breaker)
            pauses.append(pause_of(breaker))
            assert not breaker.refuses
        assert pauses == [60, 120, 240, 480, 900, 900]
        assert (breaker.open, breaker.failures, breaker.reason) == (True, 6, PASSING)

    def test_the_breaker_opens_at_the_limit_and_not_before(self) -> None:
        assert not after([PASSING_FAILURE], [PASSING_FAILURE]).open
        assert after([PASSING_FAILURE], [PASSING_FAILURE], [PASSING_FAILURE]).open

    def test_no_worker_starts_during_a_pause_and_then_one_at_a_time(self) -> None:
        failing = PipelineRow(failures=1, retry_at=(NOW + timedelta(seconds=60)).isoformat())
        later = NOW + timedelta(seconds=60)
        assert not may_start(failing, NOW)
        assert workers_to_start(4, 0, 0, failing, NOW) == 0
        assert workers_to_start(4, 0, 0, failing, later) == 1
        assert workers_to_start(4, 1, 0, failing, later) == 0
        assert workers_to_start(4, 2, 2, failing, later) == 1
        assert workers_to_start(4, 1, 0, PipelineRow(), NOW) == 3
        assert workers_to_start(1, 3, 0, PipelineRow(), NOW) == 0


class TestWhatDoesNotPass:
    def test_a_permanent_reason_of_batch_refuses_jobs_at_the_third_failure(self) -> None:
        twice = after([PERMANENT_FAILURE], [PERMANENT_FAILURE])
        assert not twice.refuses
        thrice = after([PERMANENT_FAILURE], breaker=twice)
        assert thrice.refuses and thrice.reason == PERMANENT and pause_of(thrice) == 900

    def test_a_permanent_error_that_a_worker_reports_refuses_jobs_at_once(self) -> None:
        breaker = after([replace(PERMANENT_FAILURE, reported_by_itself=True)])
        assert breaker.refuses and pause_of(breaker) == 900

    def test_passing_and_permanent_failures_do_not_add_up(self) -> None:
        """Two hosts without a network and one without an image are not three hosts without an image."""
        assert not after([PASSING_FAILURE], [PASSING_FAILURE], [PERMANENT_FAILURE]).refuses
        assert not after([PERMANENT_FAILURE], [PERMANENT_FAILURE], [PASSING_FAILURE]).refuses
        assert after([PASSING_FAILURE], [PERMANENT_FAILURE], [PERMANENT_FAILURE], [PERMANENT_FAILURE]).refuses

    def test_an_old_row_that_is_open_for_lack_of_capacity_refuses_no_job(self) -> None:
        """Commit 0f4e7e0 wrote such rows, with all errors of Batch marked as retryable."""
        no_capacity = Error(code="NoCapacity", message="CAPACITY:", remedy="r", retryable=True)
        assert not PipelineRow(failures=16, open=True, reason=no_capacity).refuses
        assert PipelineRow(failures=3, open=True, reason=PERMANENT).refuses


class TestWaves:
    def test_sixteen_workers_that_fail_together_count_once(self) -> None:
        assert after([PASSING_FAILURE] * 16).failures == 1
        assert after([PERMANENT_FAILURE] * 16).failures == 1

    def test_workers_submitted_before_the_last_count_belong_to_its_wave(self) -> None:
        """`scale` sees their ends one after another, at several calls."""
        earlier = replace(PASSING_FAILURE, submitted_at=(NOW - timedelta(seconds=1)).isoformat())
        later = replace(PASSING_FAILURE, submitted_at=(NOW + timedelta(seconds=1)).isoformat())
        breaker = after(*[[earlier]] * 16)
        assert (breaker.failures, pause_of(breaker)) == (1, 60)
        assert after([later], breaker=breaker).failures == 2

    def test_a_failure_of_another_cause_is_another_wave(self) -> None:
        submitted = (NOW - timedelta(seconds=1)).isoformat()
        breaker = after([replace(PASSING_FAILURE, submitted_at=submitted)])
        refused = replace(PERMANENT_FAILURE, submitted_at=submitted, reported_by_itself=True)
        assert after([refused], breaker=breaker).refuses


class TestNoFault:
    @pytest.mark.parametrize("cause", ["capacity", "lost"])
    def test_workers_without_an_instance_or_with_a_lost_host_are_always_replaced_at_once(self, cause: Cause) -> None:
        breaker = after(*[[FailedWorker(cause, PASSING)] * 16] * 50)
        assert (breaker.failures, breaker.open, breaker.retry_at) == (0, False, None)
        assert workers_to_start(16, 0, 0, breaker, NOW) == 16

    def test_the_reason_for_a_lack_of_instances_is_kept(self) -> None:
        assert after([FailedWorker("capacity", PASSING)]).reason == PASSING

    def test_a_lack_of_instances_keeps_the_time_since_when_until_a_worker_starts(self) -> None:
        no_capacity = Error(code="NoCapacity", message="CAPACITY:", remedy="r", retryable=True)
        lacking = [FailedWorker("capacity", no_capacity)]
        breaker = after(lacking)
        later = breaker_after(breaker, False, lacking, SETTINGS, NOW + timedelta(hours=1))
        assert later.lacks_capacity and later.no_capacity_since == NOW.isoformat()
        assert without_lack_of_capacity(later) == PipelineRow()
        assert breaker_after(later, True, [], SETTINGS, NOW) == PipelineRow()

    def test_a_worker_that_starts_leaves_failures_as_they_are(self) -> None:
        breaker = after([PASSING_FAILURE])
        assert without_lack_of_capacity(breaker) == breaker

    def test_a_lost_host_does_not_count_against_its_jobs(self) -> None:
        lost = FailedWorker("lost", PASSING, alone_with="job", ran_several_jobs=True)
        assert after(*[[lost]] * 20) == PipelineRow()

    def test_killed_workers_are_replaced_at_once_a_number_of_times(self) -> None:
        breaker = after(*[[FailedWorker("killed", PASSING)] * 16] * KILLS_REPLACED_AT_ONCE)
        assert (breaker.failures, breaker.retry_at) == (0, None)
        assert workers_to_start(16, 0, 0, breaker, NOW) == 16

    def test_workers_that_are_always_killed_open_the_breaker(self) -> None:
        breaker = after(*[[FailedWorker("killed", PASSING)]] * (KILLS_REPLACED_AT_ONCE + 1))
        assert (breaker.failures, pause_of(breaker), breaker.refuses) == (1, 60, False)


class TestKillsAtWork:
    """A worker that is killed at its first job may have been killed by the job, or from outside."""

    def test_a_first_kill_leaves_the_number_of_workers_as_it_is(self) -> None:
        for killed in (killed_at("a"), replace(CRASH_WITH_SEVERAL_JOBS, cause="killed")):
            breaker = after([killed])
            assert (breaker.failures, breaker.retry_at) == (0, None)
            assert workers_to_start(16, 15, 0, breaker, NOW) == 1

    @pytest.mark.parametrize("at_once", [True, False])
    @pytest.mark.parametrize("alone", [True, False])
    def test_sixteen_that_are_killed_together_count_once(self, at_once: bool, alone: bool) -> None:
        submitted = (NOW - timedelta(seconds=1)).isoformat()
        killed = [replace(killed_at(f"job-{n}" if alone else None), submitted_at=submitted) for n in range(16)]
        breaker = after(killed) if at_once else after(*[[worker] for worker in killed])
        assert (breaker.failures, breaker.open, breaker.crashes_with_several_jobs) == (0, False, 0 if alone else 1)
        assert workers_to_start(16, 0, 0, breaker, NOW) == 16

    def test_sixteen_engines_that_crash_together_are_one_failure(self) -> None:
        crashed = [replace(PASSING_FAILURE, alone_with=f"job-{n}") for n in range(16)]
        assert after(crashed).failures == 1

    def test_an_engine_that_is_killed_at_every_job_opens_the_breaker(self) -> None:
        waves, breaker = 0, PipelineRow()
        while not breaker.open and waves < 9:
            starts = workers_to_start(16, 0, 0, breaker, NOW)
            breaker = after([killed_at(f"job-{waves}-{n}") for n in range(starts)], breaker=breaker)
            waves += 1
        assert (waves, starts) == (4, 1), "two waves of sixteen, then one worker at a time"

    def test_repeated_crashes_with_several_jobs_let_one_worker_start_at_a_time(self) -> None:
        twice = after([CRASH_WITH_SEVERAL_JOBS] * 16, [CRASH_WITH_SEVERAL_JOBS] * 16)
        assert workers_to_start(16, 0, 0, twice, NOW) == 16
        assert workers_to_start(16, 0, 0, after([CRASH_WITH_SEVERAL_JOBS] * 16, breaker=twice), NOW) == 1


class TestServing:
    def test_a_worker_that_completed_a_job_closes_the_breaker(self) -> None:
        was_open = after(
            [PERMANENT_FAILURE],
            [PERMANENT_FAILURE],
            [PERMANENT_FAILURE],
            breaker=PipelineRow(cold_start_seconds=2, wanted=3),
        )
        assert breaker_after(was_open, True, [], SETTINGS, NOW) == PipelineRow(cold_start_seconds=2, wanted=3)
        assert breaker_after(was_open, True, [PASSING_FAILURE], SETTINGS, NOW).failures == 1

    def test_a_look_without_news_changes_nothing(self) -> None:
        breaker = PipelineRow(failures=2, retry_at=NOW.isoformat())
        assert breaker_after(breaker, False, [], SETTINGS, NOW) == breaker

    def test_a_completed_job_clears_the_list_of_jobs_that_may_crash_workers(self) -> None:
        assert breaker_after(PipelineRow(failures=1, culprits=["a"]), True, [], SETTINGS, NOW).culprits == []


class TestJobsThatKill:
    def test_a_crash_with_several_jobs_does_not_count(self) -> None:
        breaker = after([CRASH_WITH_SEVERAL_JOBS], breaker=PipelineRow(failures=1))
        assert (breaker.failures, breaker.crashes_with_several_jobs) == (1, 1)
        assert (breaker.open, breaker.retry_at) == (False, None)

    def test_many_crashes_with_several_jobs_open_the_breaker(self) -> None:
        breaker = after(*[[CRASH_WITH_SEVERAL_JOBS]] * 9)
        assert not breaker.open
        breaker = after([CRASH_WITH_SEVERAL_JOBS], breaker=breaker)
        assert breaker.open and breaker.reason == PASSING and not breaker.refuses
        assert not may_start(breaker, NOW)
        assert workers_to_start(4, 0, 0, breaker, NOW + timedelta(seconds=900)) == 1, "one tries"
        assert breaker_after(breaker, True, [], SETTINGS, NOW) == PipelineRow()

    def test_a_job_that_crashes_its_engine_repeatedly_counts_once(self) -> None:
        breaker = after(*[[FailedWorker("killed", PASSING, alone_with="poison", ran_several_jobs=True)]] * 5)
        assert (breaker.failures, breaker.open, breaker.retry_at) == (1, False, None)

    def test_an_engine_that_crashes_at_every_job_opens_the_breaker_and_jobs_wait(self) -> None:
        breaker = after(*[[FailedWorker("killed", PASSING, alone_with=job)] for job in ("a", "a", "b", "b", "c")])
        assert breaker.open and not breaker.refuses and pause_of(breaker) == 240


@pytest.mark.parametrize(
    ("job", "cause", "code"),
    [
        ({"statusReason": "Host EC2 (instance i-0a) terminated."}, "lost", "NoCapacity"),
        (None, "lost", "NoCapacity"),
        (
            {
                "statusReason": "CannotPullContainerError: pull image manifest has been retried 5 time(s): failed to "
                "resolve ref 123456789012.dkr.ecr.us-east-1.amazonaws.com/worker:1: not found"
            },
            "permanent",
            "NoCapacity",
        ),
        ({"statusReason": "CannotPullContainerError: pull image manifest, mount denied"}, "permanent", "NoCapacity"),
        ({"statusReason": "CannotPullContainerError: dial tcp 10.0.0.1:443: i/o timeout"}, "passing", "NoCapacity"),
        (
            {"statusReason": "RUNNABLE for more than 60 minutes: the amount exceeds your vCPU limit"},
            "capacity",
            "NoCapacity",
        ),
        (
            {
                "statusReason": "Canceled by JobStateTimeLimit action due to reason: "
                "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY"
            },
            "capacity",
            "NoCapacity",
        ),
        ({"statusReason": "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - too large"}, "permanent", "NoCapacity"),
        ({"statusReason": "failed to mount the volume"}, "passing", "ModelUnavailable"),
        (
            {"statusReason": "ResourceInitializationError: failed to invoke EFS utils"},
            "passing",
            "ModelUnavailable",
        ),
        (
            {"statusReason": "Essential container in task exited", "container": {"exitCode": 139}},
            "passing",
            "EngineFailed",
        ),
        (
            {"statusReason": "Essential container in task exited", "container": {"exitCode": 137}},
            "killed",
            "EngineFailed",
        ),
        (
            {"statusReason": "Essential container in task exited", "container": {"exitCode": 127}},
            "permanent",
            "EngineFailed",
        ),
        (
            {
                "statusReason": "Task failed",
                "container": {"reason": "OutOfMemoryError: Container killed", "exitCode": 137},
            },
            "passing",
            "EngineFailed",
        ),
        ({"statusReason": "something new"}, "passing", "NoCapacity"),
        ({}, "passing", "NoCapacity"),
    ],
)
def test_batchs_texts_are_classified_by_cause_and_error_code(
    job: dict[str, object] | None, cause: Cause, code: str
) -> None:
    ending = end_by_batch("job-1", job)
    assert (ending.cause, ending.error.code) == (cause, code)
    assert ending.error.retryable == (cause != "permanent")
    assert ending.error.remedy
    assert str((job or {}).get("statusReason", "")) in ending.error.message
