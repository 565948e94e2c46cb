"""A display of a run's progress: live on a terminal, in plain lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from cosmos_batch.cli.messages import Verbosity, verbosity
from cosmos_batch.cli.runs.run_snapshot import RunCounts, RunSnapshot

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

REPEAT_SECONDS = 30.0  # plain lines are printed again after this time, so that a log shows progress
_BAR_WIDTH = 60  # columns


class RunDisplay(Protocol):
    """The interface by which a run is shown."""

    def show(self, state: RunSnapshot | None, lines: list[str]) -> None:
        """Show lines about a run at this moment. `state` is None where AWS did not answer."""


@contextmanager
def run_display(stream: TextIO | None = None) -> Iterator[RunDisplay]:
    """Open the display that suits a stream: none with --quiet, live on a terminal, lines elsewhere."""
    stream = stream or sys.stderr
    if verbosity() == Verbosity.QUIET:
        yield SilentDisplay()
    elif stream.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(file=stream), auto_refresh=False, transient=True) as live:
            yield LiveLines(live)
    else:
        yield PlainLines(stream)


class SilentDisplay:
    """A display that shows nothing."""

    def show(self, state: RunSnapshot | None, lines: list[str]) -> None:
        """Show nothing."""


class PlainLines:
    """A display that prints one line when something changed, and now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: object = ()
        self._printed_at = 0.0

    def show(self, state: RunSnapshot | None, lines: list[str]) -> None:
        """Print the lines joined into one: at once if the state or the failures have changed, else twice a minute."""
        shown = (state.name, state.counts.failed, state.counts.done > 0) if state else lines
        if shown != self._shown or time.monotonic() > self._printed_at + REPEAT_SECONDS:
            self._shown, self._printed_at = shown, time.monotonic()
            print("; ".join(lines), file=self._stream, flush=True)


class LiveLines:
    """A bar with the shares of items that are answered, have failed and are in flight, and the lines below it."""

    def __init__(self, live: "Live") -> None:
        self._live = live
        self._counts = RunCounts(0)

    def show(self, state: RunSnapshot | None, lines: list[str]) -> None:
        """Replace the bar and the lines. The bar keeps its earlier counts if AWS did not answer."""
        self._counts = state.counts if state else self._counts
        self._live.update(self._rendered(lines), refresh=True)

    def _rendered(self, lines: list[str]) -> "Group":
        from rich.console import Group
        from rich.text import Text

        return Group(_bar(self._counts), *(Text(line) for line in lines))


def _bar(counts: RunCounts) -> "Text":
    from rich.text import Text

    shares = ((counts.succeeded, "█", "green"), (counts.failed, "█", "red"), (counts.in_flight, "▒", "cyan"))
    bar, drawn = Text(), 0
    for number, character, color in shares:
        width = round(_BAR_WIDTH * number / counts.items) if counts.items else 0
        bar.append(character * width, color)
        drawn += width
    bar.append("░" * max(0, _BAR_WIDTH - drawn), "dim")
    return bar
