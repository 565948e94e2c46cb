"""The stages of a job, announced as they are reached: to the log (at debug level) and to whoever observes."""

import logging
from collections.abc import Callable

from cosmos_batch.contract.job import Job
from cosmos_batch.state.jobs import Stage

Observer = Callable[[Stage, Job], None]

observers: list[Observer] = []
"""Called in order, before the next step is taken, in whichever thread takes it."""

log = logging.getLogger(__name__)


def reached(stage: Stage, job: Job) -> None:
    """A job is now at `stage`."""
    log.debug("stage %s", stage, extra={"jobId": job.job_id})
    for observer in observers:
        observer(stage, job)
