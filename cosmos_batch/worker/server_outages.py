"""Outages of a remote model server: how long a job is put back, and when a worker takes jobs again (decision 053)."""

import math
import random
import time
from datetime import UTC, datetime

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.errors import ServerUnavailable
from cosmos_batch.engines.protocol import Engine, RemoteEngine
from cosmos_batch.state import Waiting

# Seconds that a job stays in its queue; doubled with each pause. SQS hands out a message a thousand times, which must
# last until the latest deadline.
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 1200.0
LONGEST_RETRY_AFTER = 3600.0  # seconds; a longer Retry-After of a server is cut to this
FIRST_PROBE, LONGEST_PROBE = 1.0, 60.0  # seconds between two probes of the server by a worker; doubled with each
# Each outage interrupts a job at most once. A job that was interrupted more often may be the cause: from then on each
# further interruption counts as a failed attempt.
FORGIVEN_INTERRUPTIONS = 5


def pause_seconds(job: Job, pauses: int, away: ServerUnavailable) -> int | None:
    """Return the seconds for which a job goes back to its queue that was paused `pauses` times before.

    None if its deadline leaves no time for another attempt. `away` may carry the server's own Retry-After.
    """
    left = (job.deadline - datetime.now(UTC)).total_seconds() - FIRST_PAUSE
    if left <= 0:
        return None
    backoff = min(FIRST_PAUSE * 2.0 ** min(pauses, 20), LONGEST_PAUSE) * random.uniform(0.75, 1)
    requested = min(away.retry_after or 0.0, LONGEST_RETRY_AFTER)
    return math.ceil(min(max(backoff, requested), left))


class ProbePauses:
    """The growing pauses before each probe of a service that is away."""

    def __init__(self) -> None:
        self._probes = 0
        self._probe_at = 0.0  # time.monotonic

    @property
    def seconds_left(self) -> float:
        """Return how long to wait before the next probe; 0 if it is due."""
        return max(0.0, self._probe_at - time.monotonic())

    def begin(self, at_least: float = 0.0) -> None:
        """Begin the pause before the next probe, twice as long as the one before."""
        backoff = min(FIRST_PROBE * 2.0 ** min(self._probes, 20), LONGEST_PROBE)
        self._probes += 1
        self._probe_at = time.monotonic() + max(backoff, at_least)

    def reset(self) -> None:
        """Make the next pause as short as the first one, because the server has answered."""
        self._probes = 0


class Outage:
    """Tracks whether a remote server of a worker is unavailable.

    Attributes
    ----------
    is_on
        Whether the engine's own server is unavailable, without which no job can be done.
    waiting
        What the job waits for that is tried last, of those that wait for the engine's server or for the one that writes
        prompts. None if none waits, or if a job that needed a server was answered since.
    server_answers
        Whether the last job that needed a server was answered; False as long as none has needed one.
    """

    def __init__(self, engine: Engine) -> None:
        self._server = engine if isinstance(engine, RemoteEngine) else None
        self._pauses = ProbePauses()
        self.is_on = False
        self.waiting: Waiting | None = None
        self.server_answers = False

    def begin(self, away: ServerUnavailable) -> None:
        """Note that a job could not be served."""
        self.server_answers = False
        if self._server is not None and not self.is_on:
            self.is_on = True
            self._pauses.begin(min(away.retry_after or 0.0, LONGEST_PAUSE))

    def paused(self, waiting: Waiting) -> None:
        """Note that a job waits in its queue."""
        if self.waiting is None or waiting.until > self.waiting.until:
            self.waiting = waiting

    def answered(self, job: Job) -> None:
        """Note that a job was answered, which ends the outage unless the job needed no server."""
        writes_prompt = job.generation is not None and job.generation.upsample_prompt
        if self._server is not None or writes_prompt:
            self.is_on, self.waiting, self.server_answers = False, None, True
            self._pauses.reset()

    @property
    def seconds_until_probe(self) -> float:
        """Return how long to wait before the next probe of the server; 0 if it is due."""
        return self._pauses.seconds_left

    async def probe(self) -> None:
        """Ask the server whether it is available."""
        if self._server is not None and await self._server.is_available():
            self.is_on = False  # whether it also serves, the next job shows; until then the waits go on growing
        else:
            self._pauses.begin()
