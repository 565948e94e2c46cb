"""Define how an engine fails, beside a `Failure` of one job: its process died, or the remote server is unavailable."""

from typing import Literal

from cosmos_batch.contract.error import Error, Failure

CRASH_REMEDY = (
    "The file or the prompt may break the engine: try another encoding of the file, a shorter clip or a simpler prompt."
)
"""The remedy in an error where an engine's process ended and printed no reason that is known here."""

OutageKind = Literal["busy", "away", "hung", "interrupted"]
"""How a remote server is unavailable.

`busy`: it refused to begin on the request. `away`: no connection could be made. `hung`: it answered none of several
concurrent requests within the time limit. `interrupted`: it had taken the request and may have begun on it, so this job
may be the cause.
"""


class ServerUnavailable(Failure):
    """A remote server is busy or unreachable. The job can be retried later, and this attempt does not count.

    Attributes
    ----------
    kind
        How the server is unavailable.
    retry_after
        Seconds to wait before the next request, where the server sent a number.
    """

    def __init__(self, kind: OutageKind, message: str, remedy: str, retry_after: float | None = None) -> None:
        super().__init__("EngineFailed", message, remedy, retryable=True)
        self.kind = kind
        self.retry_after = retry_after

    def as_interrupted(self) -> "ServerUnavailable":
        """Return the same error with the kind `interrupted`, for a job that an earlier request had started."""
        return ServerUnavailable("interrupted", self.error.message, self.error.remedy, self.retry_after)


class EngineDied(Exception):  # noqa: N818 - it says what happened
    """The engine's process ended while it worked. It starts again for the next job, unless `for_good` is set."""

    def __init__(self, error: Error, for_good: bool = False) -> None:
        super().__init__(error.message)
        self.error = error
        self.for_good = for_good
