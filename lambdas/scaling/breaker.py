"""When to stop starting workers, and when to refuse what waits: judged from how workers ended, without a call to AWS.

Decision 005 says why. Jobs are refused for a cause that does not pass by itself, and for no other.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.settings import ScalingSettings
from cosmos_batch.state import Cause, PipelineRow

# An engine that died while several jobs were in it costs little: each of those jobs runs alone next. So many such
# deaths weigh as one failure.
COMPANY_DEATHS_PER_FAILURE = 3

# Workers that are killed from outside are replaced at once, but not for ever: what kills each worker while it starts
# (the kernel's out-of-memory killer, for instance) will kill the next one too, and each start is paid for.
KILLS_REPLACED_AT_ONCE = 5


@dataclass(frozen=True)
class Death:
    """The end of a worker that had answered nothing.

    Attributes
    ----------
    cause
        What kind of cause ended it.
    error
        What happened, for a person.
    by_own_word
        Whether the worker itself gave the reason. Otherwise it was read from what Batch says.
    submitted_at
        When the worker was submitted, where that is known.
    alone_with
        The job that was alone in its engine, if one was.
    in_company
        Whether it had several jobs in its engine at once.
    """

    cause: Cause
    error: Error
    by_own_word: bool = False
    submitted_at: str | None = None
    alone_with: str | None = None
    in_company: bool = False

    @property
    def is_of_jobs(self) -> bool:
        """Whether one of its jobs may have killed it. The loss of a host is no job's fault."""
        return self.cause != "lost" and (self.alone_with is not None or self.in_company)


def may_start(breaker: PipelineRow, now: datetime) -> bool:
    """Whether no pause holds up new workers. After the pause of an open breaker, one worker may try."""
    return breaker.retry_at is None or now >= datetime.fromisoformat(breaker.retry_at)


def workers_to_start(wanted: int, live: int, serving: int, breaker: PipelineRow, now: datetime) -> int:
    """How many workers to start: those that are missing, but none within a pause, and one at a time after failures.

    `serving` of the `live` ones have brought a job to its end; the others have yet to show that they can.
    """
    if not may_start(breaker, now):
        return 0
    most = wanted if breaker.failures == 0 and not breaker.open else min(wanted, serving + 1)
    return max(0, most - live)


def judged(
    breaker: PipelineRow, served: bool, deaths: list[Death], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """The breaker after a look at the workers: whether one of them served for the first time, and which ones died.

    Only a job brought to its end closes the breaker. A loaded model does not: an engine that dies of the first job of
    every worker would start workers for ever. Each worker is heard once: an old one that goes on serving says nothing
    of those that cannot start beside it.
    """
    if served:
        breaker = _closed(breaker)
    starting = [death for death in deaths if not death.is_of_jobs]
    breaker = _after_jobs_killed(breaker, [death for death in deaths if death.is_of_jobs], settings, now)
    breaker = _after_kills(breaker, [death for death in starting if death.cause == "killed"], settings, now)
    for cause in ("passing", "permanent"):
        breaker = _after_failed_starts(breaker, [one for one in starting if one.cause == cause], settings, now)
    return _after_lack_of_capacity(breaker, [death for death in starting if death.cause == "capacity"])


def of_deployment(breaker: PipelineRow, job_definition: str) -> PipelineRow:
    """The breaker of the workers that are deployed now: what was learnt of others says nothing of them."""
    known = breaker if breaker.job_definition in (None, job_definition) else _closed(breaker)
    return known.model_copy(update={"job_definition": job_definition})


def _closed(breaker: PipelineRow) -> PipelineRow:
    fresh = PipelineRow()
    names = ("failures", "retry_at", "open", "reason", "company_deaths", "culprits", "kills", "counted_at")
    return breaker.model_copy(update={name: getattr(fresh, name) for name in names})


def _after_failed_starts(
    breaker: PipelineRow, deaths: list[Death], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Workers that ended before any job, of causes that either all pass by themselves or all do not.

    All that were submitted before the last of their kind was counted belong to one wave, and a wave is one failure:
    sixteen workers that start together die of one cause together. Failures in a row are of one kind: a Hub that could
    not be reached says nothing of the token that it refuses next.
    """
    wave = [death for death in deaths if _is_news(death, breaker)]
    if not wave:
        return breaker
    last = wave[-1]
    permanent = last.cause == "permanent"
    of_this_kind = breaker.reason is not None and breaker.reason.retryable != permanent
    failures = breaker.failures + 1 if of_this_kind else 1
    # A worker that says itself that no other could do better is believed at once.
    opens = failures >= settings.breaker_failures or (permanent and last.by_own_word)
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


def _after_kills(breaker: PipelineRow, deaths: list[Death], settings: ScalingSettings, now: datetime) -> PipelineRow:
    """Workers that were killed while they started. The first waves change nothing: the next look replaces them."""
    wave = [death for death in deaths if _is_news(death, breaker)]
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


def _after_jobs_killed(
    breaker: PipelineRow, deaths: list[Death], settings: ScalingSettings, now: datetime
) -> PipelineRow:
    """Workers whose jobs may have killed them.

    That is the jobs' account: each of the company runs alone next, and a job that kills its engine alone fails after
    some attempts. So a death in company does not count here, and each job that kills an engine alone counts once,
    without a pause: one such job is one failure, an engine that dies of every job is soon many. Where new jobs keep
    coming, company may never run out: many deaths in company without any answer count too.
    """
    culprits = [*breaker.culprits]
    counted: list[Death] = []
    for death in deaths:
        if death.alone_with is not None and death.alone_with not in culprits:
            culprits.append(death.alone_with)
            counted.append(death)
    in_company = [death for death in deaths if death.alone_with is None]
    if not counted and not in_company:
        return breaker
    failures = breaker.failures + len(counted)
    company_deaths = breaker.company_deaths + len(in_company)
    too_many_in_company = company_deaths > settings.breaker_failures * COMPANY_DEATHS_PER_FAILURE
    opens = bool(counted and failures >= settings.breaker_failures) or bool(in_company and too_many_in_company)
    changes: dict[str, object] = {"failures": failures, "company_deaths": company_deaths, "culprits": culprits}
    if counted or opens:
        changes["reason"] = (counted or in_company)[-1].error
    if opens:
        pause = _pause(max(failures, settings.breaker_failures), settings)
        changes |= {"open": True, "retry_at": _later(now, pause)}
    return breaker.model_copy(update=changes)


def _after_lack_of_capacity(breaker: PipelineRow, deaths: list[Death]) -> PipelineRow:
    """Batch found no instance. Waiting for one costs nothing, so the worker is submitted again at once; the reason is
    kept for whoever asks why nothing happens.
    """
    if not deaths or breaker.failures:
        return breaker
    return breaker.model_copy(update={"reason": deaths[-1].error})


def _is_news(death: Death, breaker: PipelineRow) -> bool:
    """Whether the worker was submitted after the last of its kind was counted, and so is not of the same wave."""
    counted_at = breaker.counted_at.get(death.cause)
    if counted_at is None or death.submitted_at is None:
        return True
    return datetime.fromisoformat(death.submitted_at) > datetime.fromisoformat(counted_at)


def _pause(failures: int, settings: ScalingSettings) -> float:
    """Seconds before the next worker may start: twice as many after each failure, up to the longest pause."""
    return min(settings.breaker_delay_seconds * 2.0 ** (failures - 1), settings.breaker_probe_seconds)


def _later(now: datetime, seconds: float) -> str:
    return (now + timedelta(seconds=seconds)).isoformat()
