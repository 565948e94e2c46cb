"""Shows the stages of a job as they are reached: a live display on a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.job_snapshot import STAGES, JobObserver, JobSnapshot

if TYPE_CHECKING:
    from rich.table import Table

POLL_SECONDS = 0.3
REPEAT_SECONDS = 10  # plain lines say again what is waited for, so that a log shows life

# The last stage is written just after the execution ends: so long is it waited for.
_LAST_STAGE_SECONDS = 3.0


class Display(Protocol):
    """Where stages are shown."""

    def reached(self, stage: str, when: str) -> None:
        """A stage was reached; each is told once."""

    def waiting(self, text: str) -> None:
        """What happens now; told again and again."""


def follow(deployment: Deployment, job_id: str, since: datetime, display: Display) -> JobSnapshot:
    """Show a job's stages until it has ended, and return the last sight of it. Times count from `since`."""
    follower, shown, ended_at = JobObserver(deployment, job_id), {"uploaded"}, 0.0
    display.reached("uploaded", "0.0 s")
    while True:
        sight = follower.look()
        times = sight.stages()
        for stage in STAGES:
            if stage in times and stage not in shown:
                display.reached(stage, _after(times[stage], since))
                shown.add(stage)
        if sight.execution and sight.execution.over:
            ended_at = ended_at or time.monotonic()
            complete = sight.execution.status != "SUCCEEDED" or STAGES[-1] in shown
            if complete or time.monotonic() > ended_at + _LAST_STAGE_SECONDS:
                return sight
        display.waiting(sight.waits_for())
        time.sleep(POLL_SECONDS)


def _after(moment: datetime, since: datetime) -> str:
    seconds = (moment - since).total_seconds()
    # A resident worker had its model before the file came.
    return f"{seconds:.1f} s" if seconds >= 0 else "before"


@contextmanager
def display(stream: TextIO | None = None) -> Iterator[Display]:
    """The display that suits where the output goes."""
    stream = stream or sys.stderr
    if stream.isatty():
        with Live(stream) as live:
            yield live
    else:
        yield Lines(stream)


class Lines:
    """One line for each stage, and one for what is waited for when that changes or lasts."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._text = ""
        self._said_at = 0.0

    def reached(self, stage: str, when: str) -> None:
        self._say(f"{when:>8}  {stage}")

    def waiting(self, text: str) -> None:
        if text != self._text or time.monotonic() > self._said_at + REPEAT_SECONDS:
            self._text = text
            self._say(f"{'':8}  … {text}")

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        print(line, file=self._stream, flush=True)


class Live:
    """All stages at once: those that were reached with their times, the next one with what is waited for."""

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
