"""Times and limits of workers and of scaling that a configuration may set."""

from typing import Self

from pydantic import Field, model_validator

from cosmos_batch.contract.base import Model

# SQS ends a message's invisibility 12 hours after its receipt, so an attempt must end before that.
ATTEMPT_LIMIT_HOURS = 11
# The days for which SQS keeps the message of a job, so no deadline may be later.
QUEUE_DAYS = 10
# The longest life of a worker as a multiple of `maxLifeHours`: `lambdas/scaling/fleet.py` adds up to a tenth, so that
# workers do not end together.
LONGEST_LIFE = 1.1
# A job normally fails by its attempts or its deadline. One that was received this often fails too, because its attempts
# could not be counted. Pauses for a busy server do not count, and neither does a worker that gives the job back, or one
# for which AWS was not available.
MAX_RECEIPTS = 20
LONGEST_SILENCE_SECONDS = 30  # the longest time between two reports of a worker to `scale`


class WorkerSettings(Model):
    """Times of a worker."""

    idle_seconds: int = Field(
        default=300, ge=0, le=86_400, description="Seconds without work after which a worker leaves"
    )
    visibility_timeout_seconds: int = Field(
        default=120,
        ge=3,
        le=3600,
        description="Seconds after which a message whose worker was lost is visible in its queue again",
    )
    heartbeat_seconds: int = Field(
        default=120,
        ge=1,
        le=600,
        description="Seconds between two heartbeats for a job, which show whether it is still wanted",
    )
    attempt_limit_hours: float = Field(
        default=8, gt=0, le=ATTEMPT_LIMIT_HOURS, description="Longest duration of one attempt at a job"
    )
    max_life_hours: float = Field(
        default=24, ge=1, le=168, description="Hours after which a worker is replaced, plus or minus a tenth"
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        le=10,
        description="Failed attempts after which a job fails; a crash while several jobs ran does not count",
    )

    @property
    def seen_seconds(self) -> int:
        """Return the seconds between two reports of a worker, at which it also reads the instructions of `scale`."""
        return min(LONGEST_SILENCE_SECONDS, self.heartbeat_seconds)

    @property
    def longest_run_hours(self) -> float:
        """Return the hours a worker runs at most: its life with the tenth that `scale` may add, and its last attempt.

        Half an hour is added for a cold start and for the end of an attempt after its limit.
        """
        return self.max_life_hours * LONGEST_LIFE + self.attempt_limit_hours + 0.5

    @model_validator(mode="after")
    def _an_attempt_fits_into_a_life(self) -> Self:
        if self.attempt_limit_hours > self.max_life_hours:
            raise ValueError(
                f"attemptLimitHours: {self.attempt_limit_hours:g} is longer than maxLifeHours, {self.max_life_hours:g}"
            )
        return self


class ScalingSettings(Model):
    """Settings of the number of workers, and of the circuit breaker."""

    target_drain_seconds: int = Field(
        default=600, ge=1, le=86_400, description="Seconds within which the workers are to finish a backlog"
    )
    stuck_minutes: int = Field(
        default=60,
        ge=10,
        le=1440,
        description="Minutes after which a worker that still waits for an instance is given up",
    )
    max_total_vcpus: int | None = Field(
        default=None,
        alias="maxTotalVCpus",
        ge=1,
        description="vCPUs of all pipelines together; by default each has its own maxVCpus. See priority",
    )
    breaker_failures: int = Field(
        default=3,
        ge=1,
        le=20,
        description="How often in a row workers fail to start until there is an alarm and, where the cause does not "
        "pass by itself, jobs are refused",
    )
    breaker_delay_seconds: int = Field(
        default=60, ge=1, le=3600, description="Pause after the first time; doubles with each"
    )
    breaker_probe_seconds: int = Field(
        default=900, ge=1, le=86_400, description="The longest pause; after each, one worker tries"
    )
