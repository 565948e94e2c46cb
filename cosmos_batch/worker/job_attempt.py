"""A worker's attempt at a job: the phase it is in, how it ended, and the stages that the job has reached."""

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum, auto

from cosmos_batch.contract.job import Job
from cosmos_batch.state.job_rows import Stage
from cosmos_batch.worker.queue import Delivery

StageObserver = Callable[[Stage, Job], None]

stage_observers: list[StageObserver] = []
"""Functions that are called, in order, whenever a job reaches a stage, in whichever thread it does, before the next
step is taken. Tests add to it; a worker does not."""

log = logging.getLogger(__name__)


class AttemptEnd(Enum):
    """The ways in which an attempt ends."""

    ANSWERED = auto()
    FAILED = auto()  # the job has failed, which says nothing about the engine's pace
    NOT_DECIDED = auto()  # the job was given back, or its execution no longer waits for it
    PAUSED = auto()  # given back: a remote server is busy or away, and the job waits for it in its queue
    OUTDATED = auto()  # given back: it needs a worker of a later deployment, and `scale` has asked this one to leave


class AttemptPhase(Enum):
    """The phases of an attempt. A worker that stops decides by the phase which jobs to give back."""

    WAITING = auto()  # nothing is lost if the job is given back now
    PREPARING = auto()  # its files are fetched and its prompt is written: little is lost, but an attempt is counted
    INFERRING = auto()
    CONCLUDING = auto()  # its result is decided or about to be: finishing takes less time than another attempt
    RETRYING = auto()  # as CONCLUDING, but AWS has failed, and nobody knows for how long: a worker that stops gives up


@dataclass
class JobAttempt:
    """An attempt at a job, from the receipt of its message until that is deleted or given back.

    It is counted in the job's row, under `attempt_id`, once the worker begins to prepare the job.
    """

    delivery: Delivery
    attempt_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    planned_at: str | None = None  # when its job was planned, by the job's row; None until that was read
    phase: AttemptPhase = AttemptPhase.WAITING
    received_at: float = field(default_factory=time.monotonic)
    inferring_since: float | None = None  # time.monotonic
    when_in_engine: Callable[[], None] | None = None
    engine_seconds: float = 0.0  # its share of the engine's time

    @property
    def job(self) -> Job:
        return self.delivery.job

    def extend_deadline(self, deadline: datetime) -> None:
        """Give the job until `deadline`, which is not earlier than its message says."""
        job = self.job.model_copy(update={"deadline": deadline})
        self.delivery = replace(self.delivery, job=job)

    def enter_engine(self) -> None:
        """Note that the job is in the engine from now on."""
        self.phase, self.inferring_since = AttemptPhase.INFERRING, time.monotonic()
        if self.when_in_engine is not None:
            self.when_in_engine()

    @property
    def has_left_engine(self) -> bool:
        return self.phase in (AttemptPhase.CONCLUDING, AttemptPhase.RETRYING)

    @property
    def is_before_engine(self) -> bool:
        return self.phase in (AttemptPhase.WAITING, AttemptPhase.PREPARING)

    def is_slow_to_prepare(self, seconds: float) -> bool:
        """Return whether it was received more than `seconds` ago and is still not in the engine."""
        return self.is_before_engine and time.monotonic() - self.received_at > seconds


def stage_reached(stage: Stage, job: Job) -> None:
    """Log at debug level that a job has reached `stage`, and call the observers."""
    log.debug("stage %s", stage, extra={"jobId": job.job_id})
    for observer in stage_observers:
        observer(stage, job)
