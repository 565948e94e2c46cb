"""Show progress as a line with a growing number: files listed, uploaded, written."""

import sys
import time
from types import TracebackType
from typing import Self

from cosmos_batch.cli.messages import Verbosity, verbosity

_TERMINAL_SECONDS, _LOG_SECONDS = 0.2, 10.0


class ProgressCounter:
    """Shows `12,000 files listed` while a block runs: in place on a terminal, as a line now and then elsewhere."""

    def __init__(self, counted: str, total: int | None = None) -> None:
        self._counted = counted
        self._of = "" if total is None else f" of {total:,}"
        self._terminal = sys.stderr.isatty()
        self._seconds = _TERMINAL_SECONDS if self._terminal else _LOG_SECONDS
        self._count = 0
        self._shown_at = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._shown:
            self._show("\n")

    def add(self, count: int = 1) -> None:
        """Add to the count, and show it if enough time has passed since it was last shown."""
        self._count += count
        if time.monotonic() - self._shown_at >= self._seconds and verbosity() != Verbosity.QUIET:
            self._shown = True
            self._shown_at = time.monotonic()
            self._show("" if self._terminal else "\n")

    def _show(self, end: str) -> None:
        start = "\r" if self._terminal else ""
        print(f"{start}{self._count:,}{self._of} {self._counted}", end=end, file=sys.stderr, flush=True)
