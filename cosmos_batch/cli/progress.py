"""A display of a job's stages as they are reached: live on a terminal, in plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import POLL_SECONDS, STAGES, JobObserver, JobSnapshot
from cosmos_batch.cli.messages import Verbosity, verbosity

if TYPE_CHECKING:
    from rich.table import Table

REPEAT_SECONDS = 10  # plain lines repeat what the job waits for after this time, so that a log shows progress

# The last stage is stamped just after the execution has ended. Wait for it no longer than this.
_LAST_STAGE_SECONDS = 3.0


class Display(Protocol):
    """The interface by which `follow` shows a job's stages."""

    def reached(self, stage: str, when: str) -> None:
        """Show that a stage was reached. Called once for each."""

    def waiting(self, text: str) -> None:
        """Show what the job waits for. This is called each time the state of the job is read."""


def follow(deployment: Deployment, job_id: str, since: datetime, display: Display) -> JobSnapshot:
    """Show a job's stages until it has ended, and return its last snapshot. Times count from `since`."""
    observer, shown, ended_at = JobObserver(deployment, job_id), {"uploaded"}, 0.0
    display.reached("uploaded", "0.0 s")
    while True:
        snapshot = observer.look()
        times, over = snapshot.stages(), snapshot.execution is not None and snapshot.execution.over
        for stage in _reached_in_order(times, over):
            if stage not in shown:
                display.reached(stage, _after(times[stage], since))
                shown.add(stage)
        if snapshot.execution and over:
            ended_at = ended_at or time.monotonic()
            complete = snapshot.execution.status != "SUCCEEDED" or STAGES[-1] in shown
            if complete or time.monotonic() > ended_at + _LAST_STAGE_SECONDS:
                return snapshot
        if STAGES[-1] not in shown:
            display.waiting(snapshot.waits_for())
        time.sleep(POLL_SECONDS)


def _reached_in_order(times: Mapping[str, datetime], over: bool) -> Iterator[str]:
    """Yield the stages that were reached, up to the first one that was not, unless the job has ended.

    A resident worker's stages are known before the job is queued.
    """
    for stage in STAGES[1:]:  # the first one is the caller's own
        if stage in times:
            yield stage
        elif not over:
            return


def _after(moment: datetime, since: datetime) -> str:
    seconds = (moment - since).total_seconds()
    # A resident worker had loaded its model before the job came.
    return f"{seconds:.1f} s" if seconds >= 0 else "before"


@contextmanager
def display(stream: TextIO | None = None) -> Iterator[Display]:
    """Open the display that suits a stream: none with --quiet, live on a terminal, lines elsewhere."""
    stream = stream or sys.stderr
    if verbosity() == Verbosity.QUIET:
        yield Silence()
    elif stream.isatty():
        with Live(stream) as live:
            yield live
    else:
        yield Lines(stream)


class Silence:
    """A display that shows nothing."""

    def reached(self, stage: str, when: str) -> None:
        """Show nothing."""

    def waiting(self, text: str) -> None:
        """Show nothing."""


class Lines:
    """A display of plain lines: one for each stage, and one for what the job waits for when that changes or lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._printed_at = 0.0

    def reached(self, stage: str, when: str) -> None:
        self._print(f"{when:>8}  {stage}")

    def waiting(self, text: str) -> None:
        if text != self._text or time.monotonic() > self._printed_at + REPEAT_SECONDS:
            self._text = text
            self._print(f"{'':8}  … {text}")

    def _print(self, line: str) -> None:
        self._printed_at = time.monotonic()
        print(line, file=self._stream, flush=True)


class Live:
    """A live table of all stages: those reached with their times, the next one with what the job waits for."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive
        from rich.spinner import Spinner

        self._times: dict[str, str] = {}
        self._text = ""
        self._spinner = Spinner("dots")
        self._live = RichLive(console=Console(file=stream), get_renderable=self._render, refresh_per_second=10)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._text = ""
        self._live.__exit__(kind, error, at)

    def reached(self, stage: str, when: str) -> None:
        self._times[stage] = when

    def waiting(self, text: str) -> None:
        self._text = text

    def _render(self) -> "Table":
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_column(justify="right", min_width=8)
        following = next((stage for stage in STAGES if stage not in self._times), None)
        for stage in STAGES:
            if stage in self._times:
                table.add_row(Text(self._times[stage], "green"), stage)
            elif stage == following and self._text:
                table.add_row(self._spinner, f"{stage}: {self._text}")
            else:
                table.add_row("", Text(stage, "dim"))
        return table
