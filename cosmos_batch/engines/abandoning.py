"""Threads that work for jobs, and stop when these are cancelled or their engine is closed."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cosmos_batch.contract.error import Failure

Check = Callable[[], None]
"""Called between pieces of work. What it raises ends them."""


class Abandoning:
    """Of one engine, whose jobs make one `thing` each, such as an answer."""

    def __init__(self, thing: str) -> None:
        self._thing = thing
        self._running: set[threading.Event] = set()

    @contextmanager
    def checked(self) -> Iterator[Check]:
        """For one job: what its threads call while it runs, and what ends them after it."""
        abandoned = threading.Event()
        self._running.add(abandoned)

        def check() -> None:
            if abandoned.is_set():
                raise Failure("Cancelled", f"The {self._thing} was abandoned before it was finished.", "Ask again.")

        try:
            yield check
        finally:
            abandoned.set()
            self._running.discard(abandoned)

    def abandon_all(self) -> None:
        """End what runs."""
        for abandoned in list(self._running):
            abandoned.set()
