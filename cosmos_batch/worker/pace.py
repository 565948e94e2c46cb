"""How fast a worker is: what `scale` reckons with."""

import time


class Pace:
    """Seconds per item while there was work, all slots together: the last `window` completions count."""

    def __init__(self, window: int = 64) -> None:
        self._window = window
        self._busy_since: float | None = None
        self._busy_seconds: list[float] = []

    def working(self) -> None:
        """A job is in hand; the first one starts the clock."""
        if self._busy_since is None:
            self._busy_since = time.monotonic()

    def idle(self) -> None:
        """No job is in hand: the clock stands."""
        self._busy_since = None

    def done(self) -> None:
        """One more job was decided."""
        now = time.monotonic()
        if self._busy_since is not None:
            self._busy_seconds = [*self._busy_seconds, now - self._busy_since][-self._window :]
            self._busy_since = now

    @property
    def seconds_per_item(self) -> float | None:
        """None until something was completed."""
        return sum(self._busy_seconds) / len(self._busy_seconds) if self._busy_seconds else None
