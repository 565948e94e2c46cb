"""Follow a run until it has ended, or is held."""

import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from cosmos_batch.catalogue.aws_errors import is_throttled
from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.errors import CliError
from cosmos_batch.cli.job_snapshot import read_execution
from cosmos_batch.cli.local_cloud import where_executions_are
from cosmos_batch.cli.runs.run_display import RunDisplay
from cosmos_batch.cli.runs.run_snapshot import RunSnapshot, read_run_snapshot
from cosmos_batch.cli.runs.wording import cost_in_words, counts_in_words, duration_in_words, workers_in_words

POLL_SECONDS = 2.0
_SHARDS_PER_SECOND = 200  # rows of shards that are read, so that following a large run costs next to nothing
NOTED_SECONDS = 60.0  # the end of an execution is noted in the run's row within this time
CLOSED_SECONDS = 1800.0  # that of a cancelled run, after up to 100,000 items in flight were closed
_WINDOW_SECONDS = 600.0  # the rate is measured over this time
_PATIENCE_SECONDS = 600.0  # without an answer; a clock that stands still while the machine sleeps counts them


class ItemRate:
    """The rate at which items end, measured over the last minutes."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()

    def add(self, at: float, count: int) -> None:
        """Note how many items had ended at a time in seconds."""
        self._counts.append((at, count))
        while len(self._counts) > 2 and self._counts[1][0] < at - _WINDOW_SECONDS:
            self._counts.popleft()

    @property
    def per_second(self) -> float:
        """Return the number of items that end in a second; 0 while it is not known."""
        if len(self._counts) < 2:
            return 0.0
        (start, before), (end, after) = self._counts[0], self._counts[-1]
        return max(0.0, (after - before) / (end - start)) if end > start else 0.0


class RunWatcher:
    """Looks at a run again and again. Nothing of the run depends on it: it can stop and begin again at any time."""

    def __init__(self, deployment: Deployment, run: str, clock: Callable[[], float] = time.time) -> None:
        self._deployment = deployment
        self._run = run
        self._clock = clock
        self._rate = ItemRate()
        self._shards = 0
        self._ended_since: float | None = None  # when its execution was first seen to have ended

    def watch(self, display: RunDisplay) -> RunSnapshot:
        """Show the run until it is over, and return its last state.

        While AWS cannot be reached, or throttles, it waits, for ten minutes at most. Raises CliError where the run's
        execution was stopped from outside.
        """
        answered_at = time.monotonic()
        while True:
            try:
                self._check_execution()
                state = read_run_snapshot(self._deployment, self._run)
                if state.over:
                    return state
                display.show(state, self._lines(state))
                answered_at = time.monotonic()
            except (ConnectionError, HTTPClientError, ClientError) as error:
                is_refused = isinstance(error, ClientError) and not is_throttled(error.response)
                if is_refused or time.monotonic() > answered_at + _PATIENCE_SECONDS:
                    raise
                display.show(None, [f"no answer: {error}", "it is asked again"])
            time.sleep(max(POLL_SECONDS, self._shards / _SHARDS_PER_SECOND))

    def _lines(self, state: RunSnapshot) -> list[str]:
        """Return lines with the run's progress, its rate, and what its workers do."""
        counts, row = state.counts, state.row
        if row is None:
            return ["waiting for its execution to begin it"]
        self._shards = row.shards
        if not self._rate.per_second:
            self._rate.add(datetime.fromisoformat(row.started_at).timestamp(), 0)
        self._rate.add(self._clock(), counts.done - counts.reused)
        lines = [counts_in_words(counts), f"{self._speed(state)}{cost_in_words(self._deployment, state)}"]
        if row.reason:
            lines.append(f"{state.name}: {row.reason}")
        return [*lines, workers_in_words(self._deployment, row.pipelines)]

    def _speed(self, state: RunSnapshot) -> str:
        rate, left = self._rate.per_second, state.counts.items - state.counts.done
        if not rate or not left:
            return ""
        speed = f"{rate:.1f} a second" if rate >= 0.5 else f"{rate * 60:.1f} a minute"
        return f"{speed}, {duration_in_words(left / rate)} left, {datetime.now(UTC):%H:%M:%S} UTC; "

    def _check_execution(self) -> None:
        """Raise CliError where the execution that feeds the run has ended, and nobody has noted that for a while."""
        row = self._deployment.runs.get(self._run)
        if row is not None and row.ended_at is not None:
            return
        arn = row.execution_arn if row else None
        execution = read_execution(self._deployment, arn or self._deployment.execution_arn(self._run))
        if execution is None or not execution.over:
            self._ended_since = None
            return
        self._ended_since = self._ended_since or time.monotonic()
        is_cancelled = row is not None and row.state == "CANCELLED"
        if time.monotonic() - self._ended_since >= (CLOSED_SECONDS if is_cancelled else NOTED_SECONDS):
            remedy = "cancel" if is_cancelled else "resume"
            raise CliError(
                f"The Step Functions execution of {self._run} was stopped, or failed before it began.",
                f"Look at it {where_executions_are()}. cosmos-batch runs {remedy} {self._run} starts a new one.",
            )
