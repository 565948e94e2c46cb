"""What is told about one load or one request: lines for a person, each with the seconds since it began."""

import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def plain_lines(text: str) -> list[str]:
    """The lines of a text as a terminal would leave them: no colours, of a progress bar only its last state."""
    lines = (_ESCAPES.sub("", line).rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return [kept for line in lines if (kept := _CONTROL.sub("", line).rstrip())]


class Journal(logging.Handler):
    """Collects lines. While it is `listening`, it takes what a library logs in the same thread, and no other's."""

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
        """Take a library's record (logging.Handler's interface)."""
        if record.thread == self._thread:
            self.note(f"{record.name}: {record.levelname}: {record.getMessage()}")

    @contextmanager
    def listening(self, library: str) -> Iterator[None]:
        """Take the log records of a library that come from the calling thread."""
        logger = logging.getLogger(library)
        self._thread = threading.get_ident()
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


class TimedJournal(Journal):
    """Of one job, with the seconds that each of its phases took."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}

    def took(self, phase: str, began: float) -> None:
        """Note a phase that ends now, and began at a time of the monotonic clock."""
        self.seconds[phase] = round(time.monotonic() - began, 3)
        self.note(f"{phase}: {self.seconds[phase]:.2f} s")

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Note how long it takes, unless it fails."""
        began = time.monotonic()
        yield
        self.took(phase, began)
