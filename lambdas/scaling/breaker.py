"""The circuit breaker of a pipeline: when to stop starting workers, and when to fail the jobs that wait for one.

It is computed from how workers ended, without a call to AWS; decision 005 gives the reasons. Waiting jobs are failed
only for a cause that does not pass by itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import Cause, PipelineRow

# Waves of crashes with several jobs in the engine that weigh as much as one failure. A single wave costs little,
# because each of these jobs runs alone next.
CRASHES_PER_FAILURE = 3

# Keys of `PipelineRow.counted_at` beside the causes: crashes with jobs in the engine, and the first of them that was a
# kill, which may have come from outside.
_CRASHED, _KILLED_AT_WORK = "crashed", "killedAtWork"

# How many waves of workers that are killed from outside while they start are replaced at once. Later ones are replaced
# after a pause: what killed them all (the kernel's out-of-memory killer, for instance) would kill the next workers too,
# and each start costs money.
KILLS_REPLACED_AT_ONCE = 5


@dataclass(frozen=True)
class FailedWorker:
    """A worker that ended before it had completed a job.

    Attributes
    ----------
    cause
        The kind of cause that ended it.
    error
        What happened, for a person.
    reported_by_itself
        Whether the worker itself gave the error. Otherwise it was read from what Batch says of its job.
    submitted_at
        When the worker was submitted, if that is known.
    alone_with
        The id of the job that was alone in its engine, if one was.
    ran_several_jobs
        Whether several jobs were in its engine at once.
    """

    cause: Cause
    error: Error
    reported_by_itself: bool = False
    submitted_at: str | None = None
    alone_with: str | None = None
    ran_several_jobs: bool = False

    @property
    def may_be_a_jobs_fault(self) -> bool:
        """Return whether a job may have crashed it. No job can make Batch lose a host."""
        return self.cause != "lost" and (self.alone_with is not None or self.ran_several_jobs)


def may_start(breaker: PipelineRow, now: datetime) -> bool:
    """Return whether a worker may start: no pause holds, or the pause of an open breaker is over and one may try."""
    return breaker.retry_at is None or now >= datetime.fromisoformat(breaker.retry_at)


def workers_to_start(wanted: int, live: int, serving: int, breaker: PipelineRow, now: datetime) -> int:
    """Return how many workers to start: all that are missing, none during a pause, and one at a time after failures.

    `serving` counts the live workers that have completed a job; the others have yet to show that they can.
    """
    if not may_start(breaker, now):
        return 0
    failing = breaker.open or breaker.failures > 0 or breaker.crashes_with_several_jobs >= CRASHES_PER_FAILURE
    limit = min(wanted, serving + 1) if failing else wanted
    return max(0, limit - live)


def breaker_after(
    breaker: PipelineRow, served: bool, failed: list[FailedWorker], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Return the breaker after the workers that served or ended since the last look were counted.

    `served` says whether one of them has completed its first job since the last look; `failed` are those that ended
    without having completed any.

    Only a completed job closes the breaker. A loaded model does not: an engine that crashes at each worker's first job
    would have workers started for ever. Each worker counts once, so an old one that keeps serving does not close the
    breaker while others fail to start beside it.
    """
    if served:
        breaker = _closed(breaker)
    failed_to_start = [worker for worker in failed if not worker.may_be_a_jobs_fault]
    breaker = _after_crashes(breaker, [worker for worker in failed if worker.may_be_a_jobs_fault], settings, now)
    breaker = _after_kills(breaker, [worker for worker in failed_to_start if worker.cause == "killed"], settings, now)
    for cause in ("passing", "permanent"):
        of_cause = [worker for worker in failed_to_start if worker.cause == cause]
        breaker = _after_failed_starts(breaker, of_cause, settings, now)
    return _after_lack_of_capacity(breaker, [worker for worker in failed_to_start if worker.cause == "capacity"], now)


def without_lack_of_capacity(breaker: PipelineRow) -> PipelineRow:
    """Return the breaker after a worker has got an instance or no worker is needed: a stored lack has passed."""
    if not breaker.lacks_capacity:
        return breaker
    return breaker.model_copy(update={"reason": None, "no_capacity_since": None})


def breaker_of_deployment(breaker: PipelineRow, job_definition: str) -> PipelineRow:
    """Return the breaker for the deployed job definition: closed if it was about the workers of another one."""
    known = breaker if breaker.job_definition in (None, job_definition) else _closed(breaker)
    return known.model_copy(update={"job_definition": job_definition})


def _closed(breaker: PipelineRow) -> PipelineRow:
    fresh = PipelineRow()
    names = (
        "failures",
        "retry_at",
        "open",
        "reason",
        "crashes_with_several_jobs",
        "culprits",
        "kills",
        "counted_at",
        "no_capacity_since",
    )
    return breaker.model_copy(update={name: getattr(fresh, name) for name in names})


def _after_failed_starts(
    breaker: PipelineRow, failed: list[FailedWorker], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Count workers that failed to start, all of causes that pass by themselves, or all of causes that do not.

    A wave is one failure: sixteen workers that start together fail together for one cause. Every worker that was
    submitted before a worker of its kind was last counted belongs to that one's wave.

    Failures in a row are of one kind: a Hub that could not be reached says nothing about a token that it rejects next.
    """
    wave = [worker for worker in failed if _starts_a_wave(worker, breaker, worker.cause)]
    if not wave:
        return breaker
    last = wave[-1]
    permanent = last.cause == "permanent"
    same_kind = breaker.reason is not None and breaker.reason.retryable != permanent
    failures = breaker.failures + 1 if same_kind else 1
    # A permanent error that a worker gave itself opens the breaker at once: the worker knows that no other could start.
    opens = failures >= settings.breaker_failures or (permanent and last.reported_by_itself)
    pause = settings.breaker_probe_seconds if permanent and opens else _pause(failures, settings)
    return breaker.model_copy(
        update={
            "failures": failures,
            "open": opens,
            "retry_at": _later(now, pause),
            "reason": last.error,
            "counted_at": {**breaker.counted_at, last.cause: now.isoformat()},
        }
    )


def _after_kills(
    breaker: PipelineRow, failed: list[FailedWorker], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Count workers that were killed while they started.

    The first `KILLS_REPLACED_AT_ONCE` waves set no pause, so the next look replaces their workers.
    """
    wave = [worker for worker in failed if _starts_a_wave(worker, breaker, worker.cause)]
    if not wave:
        return breaker
    counted_at = {**breaker.counted_at, "killed": now.isoformat()}
    breaker = breaker.model_copy(update={"kills": breaker.kills + 1, "counted_at": counted_at})
    if breaker.kills <= KILLS_REPLACED_AT_ONCE:
        return breaker
    failures = breaker.failures + 1
    return breaker.model_copy(
        update={
            "failures": failures,
            "open": breaker.open or failures >= settings.breaker_failures,
            "retry_at": _later(now, _pause(failures, settings)),
            "reason": wave[-1].error,
        }
    )


def _after_crashes(
    breaker: PipelineRow, failed: list[FailedWorker], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Count workers that a job may have crashed, a wave of them once.

    Each job's own attempts deal with these: after a crash with several jobs each of them runs alone, and a job that
    crashes its engine alone fails after some attempts. So each job that was alone counts once, and sets no pause: one
    bad job is one failure, but an engine that crashes at every job soon has many. Of a wave, one such job is noted; the
    others count if they crash a later worker.
    """
    wave = [
        worker
        for worker in failed
        if worker.alone_with not in breaker.culprits and _starts_a_wave(worker, breaker, _CRASHED)
    ]
    if not wave:
        return breaker
    counted_at = {**breaker.counted_at, _CRASHED: now.isoformat()}
    breaker = breaker.model_copy(update={"counted_at": counted_at})
    alone = next((worker for worker in wave if worker.alone_with is not None), None)
    if alone is None:
        return _after_crash_with_several_jobs(breaker, wave[-1], settings, now)
    if alone.cause == "killed" and _KILLED_AT_WORK not in counted_at:
        # Nothing speaks against the job yet: it may as well have been the host, or a person.
        return breaker.model_copy(update={"counted_at": {**counted_at, _KILLED_AT_WORK: now.isoformat()}})
    failures = breaker.failures + 1
    culprits = [*breaker.culprits, alone.alone_with]
    breaker = breaker.model_copy(update={"failures": failures, "culprits": culprits, "reason": alone.error})
    return _opened(breaker, settings, now) if failures >= settings.breaker_failures else breaker


def _after_crash_with_several_jobs(
    breaker: PipelineRow, crashed: FailedWorker, settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Count a wave of crashes with several jobs in the engine, which is no failure by itself.

    The breaker opens only when there are more of them than `CRASHES_PER_FAILURE` times `breaker_failures`. It has to
    open then, because jobs may never get to run alone while new ones keep coming.
    """
    breaker = breaker.model_copy(update={"crashes_with_several_jobs": breaker.crashes_with_several_jobs + 1})
    if breaker.crashes_with_several_jobs <= settings.breaker_failures * CRASHES_PER_FAILURE:
        return breaker
    return _opened(breaker.model_copy(update={"reason": crashed.error}), settings, now)


def _opened(breaker: PipelineRow, settings: ScalingSettings, now: datetime) -> PipelineRow:
    """Return the breaker, opened because of crashes, with the time at which the next worker may start."""
    pause = _pause(max(breaker.failures, settings.breaker_failures), settings)
    return breaker.model_copy(update={"open": True, "retry_at": _later(now, pause)})


def _after_lack_of_capacity(breaker: PipelineRow, failed: list[FailedWorker], now: datetime) -> PipelineRow:
    """Keep the reason why Batch found no instance, and since when; `cosmos-batch status` and `submit` show both.

    Nothing else changes: waiting for an instance costs nothing, so the worker is submitted again at once.
    """
    if not failed or breaker.failures:
        return breaker
    since = breaker.no_capacity_since or now.isoformat()
    return breaker.model_copy(update={"reason": failed[-1].error, "no_capacity_since": since})


def _starts_a_wave(worker: FailedWorker, breaker: PipelineRow, kind: str) -> bool:
    """Return whether the worker was submitted after one of its kind was last counted, and so is of a new wave."""
    counted_at = breaker.counted_at.get(kind)
    if counted_at is None or worker.submitted_at is None:
        return True
    return datetime.fromisoformat(worker.submitted_at) > datetime.fromisoformat(counted_at)


def _pause(failures: int, settings: ScalingSettings) -> float:
    """Return the seconds until the next worker may start: doubled by each failure, up to `breaker_probe_seconds`."""
    return min(settings.breaker_delay_seconds * 2.0 ** (failures - 1), settings.breaker_probe_seconds)


def _later(now: datetime, seconds: float) -> str:
    return (now + timedelta(seconds=seconds)).isoformat()
