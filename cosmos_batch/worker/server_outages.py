"""When somebody else's server is busy or away: how long a job waits in its queue, and a worker takes none."""

import math
import random
import time
from datetime import UTC, datetime

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.protocol import Engine, RemoteEngine

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 900.0  # seconds of a job in its queue; doubled with each pause
LONGEST_ASKED = 3600.0  # seconds that a server may ask for with Retry-After
FIRST_LOOK, LONGEST_LOOK = 1.0, 60.0  # seconds between two looks of a worker at the server; doubled with each
# Each outage interrupts a job once at most. One that a server breaks off more often may be what breaks it: from then on
# it is treated as one of which an engine died.
FORGIVEN_INTERRUPTIONS = 5


def pause_seconds(job: Job, pauses: int, away: ServerUnavailable) -> int | None:
    """How long a job waits that was paused so often before; None where its deadline leaves no time for another try."""
    left = (job.deadline - datetime.now(UTC)).total_seconds() - FIRST_PAUSE
    if left <= 0:
        return None
    grown = min(FIRST_PAUSE * 2.0 ** min(pauses, 20), LONGEST_PAUSE) * random.uniform(0.75, 1)
    asked = min(away.retry_after or 0.0, LONGEST_ASKED)
    return math.ceil(min(max(grown, asked), left))


class Outage:
    """Whether the server of an engine is away, as far as a worker knows. Of an engine that has none, it never is."""

    def __init__(self, engine: Engine) -> None:
        self._server = engine if isinstance(engine, RemoteEngine) else None
        self._looks = 0
        self._look_at = 0.0  # time.monotonic
        self.is_on = False

    def noticed(self, away: ServerUnavailable) -> None:
        """A job could not be served."""
        if self._server is not None and not self.is_on:
            self.is_on = True
            self._look_later(away.retry_after or 0.0)

    def over(self) -> None:
        """A job was answered."""
        self.is_on, self._looks = False, 0

    @property
    def seconds_until_look(self) -> float:
        """When it is time to look at the server again; 0 where it is."""
        return max(0.0, self._look_at - time.monotonic())

    async def look(self) -> None:
        """Ask the server whether it is there."""
        if self._server is not None and await self._server.is_available():
            self.is_on = False  # the next job shows whether it serves, too: until then, pauses go on growing
        else:
            self._look_later(0.0)

    def _look_later(self, asked_seconds: float) -> None:
        grown = min(FIRST_LOOK * 2.0 ** min(self._looks, 20), LONGEST_LOOK)
        self._looks += 1
        self._look_at = time.monotonic() + max(grown, min(asked_seconds, LONGEST_PAUSE))
