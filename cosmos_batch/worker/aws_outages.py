"""Outages of AWS: while jobs end by them, or SQS itself fails, a worker receives no messages."""

import logging
from collections.abc import Awaitable, Callable

from cosmos_batch.store.s3_retries import FAULTS, may_succeed_later
from cosmos_batch.worker.server_outages import ProbePauses

log = logging.getLogger(__name__)


class AwsOutage:
    """Tracks whether AWS is unavailable to a worker.

    SQS counts each receipt of a message. As long as the state table cannot be written, a receipt cannot be noted as one
    through no fault of the job, so an outage of some length would use up `MAX_RECEIPTS`.

    Attributes
    ----------
    is_on
        Whether a job, a receive, or a message's acceptance has ended by a fault of AWS that may pass, and the state
        table has not been written since.
    """

    def __init__(self) -> None:
        self._pauses = ProbePauses()
        self.is_on = False

    def job_ended(self, error: BaseException | None) -> None:
        """Note with which error the handling of a job has ended, or None."""
        if error is None:
            self.is_on = False
            self._pauses.reset()
        elif isinstance(error, FAULTS) and may_succeed_later(error):
            self.begin()

    def begin(self) -> None:
        """Note a fault of AWS that may pass."""
        if not self.is_on:
            self.is_on = True
            self._pauses.begin()

    @property
    def seconds_until_probe(self) -> float:
        """Return how long to wait before the next probe; 0 if it is due."""
        return self._pauses.seconds_left

    async def probe(self, write: Callable[[], Awaitable[None]]) -> None:
        """Find out by a call of `write`, which writes to the state table, whether AWS is available again."""
        try:
            await write()
        except FAULTS as fault:
            log.warning("no job is received, because the state table cannot be written: %s", fault)
            self._pauses.begin()
        else:
            # Whether messages come and jobs succeed again, the next one shows; until then the pauses go on growing.
            self.is_on = False
