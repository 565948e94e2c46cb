"""Log lines about one load or one request, each with the seconds since it began."""

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain_lines(text: str) -> list[str]:
    """Return the lines of a text as a terminal shows them at the end: without colors, a progress bar in its last
    state."""
    lines = (_ESCAPES.sub("", line).rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return [plain for line in lines if (plain := _CONTROL.sub("", line).rstrip())]


class Journal(logging.Handler):
    """Collects lines, and log records of a library while it is `listening`: those of one thread."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self._began = time.monotonic()
        self._thread = threading.get_ident()

    def note(self, text: str) -> None:
        """Add a text of one or more lines."""
        seconds = time.monotonic() - self._began
        self.lines += [f"{seconds:7.2f} s  {line}" for line in plain_lines(text)]

    def emit(self, record: logging.LogRecord) -> None:
        """Add a library's log record; `logging` calls this."""
        if record.thread == self._thread:
            self.note(f"{record.name}: {record.levelname}: {record.getMessage()}")

    @contextmanager
    def listening(self, library: str) -> Iterator[None]:
        """Collect the log records that a library writes in the calling thread while the block runs."""
        logger = logging.getLogger(library)
        self._thread = threading.get_ident()
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


@contextmanager
def timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    """Write down how long the block takes, unless it raises; for phases of which no journal has a line."""
    began = time.monotonic()
    yield
    seconds[phase] = round(time.monotonic() - began, 2)


class TimedJournal(Journal):
    """A journal of one job that also keeps the seconds of each phase."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def took(self, phase: str, began: float) -> None:
        """Write down that a phase ends now; `began` is a time of the monotonic clock."""
        self.seconds[phase] = round(time.monotonic() - began, 3)
        self.note(f"{phase}: {self.seconds[phase]:.2f} s")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Write down how long the block takes, unless it raises."""
        began = time.monotonic()
        yield
        self.took(phase, began)
