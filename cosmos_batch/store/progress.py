"""Progress of a copy, measured by what has reached the disk."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cosmos_batch.store.manifest import bytes_of

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_INTERVAL_SECONDS = 0.5


def silent(_done: int, _total: int) -> None:
    """Report to nobody."""


@contextmanager
def watch(directory: Path, total: int, on_progress: Progress) -> Iterator[None]:
    """Report how much of `total` bytes lies in `directory`: at the start, twice a second from a thread, and at the end.

    Looking at the disk holds for every way of filling it: plain HTTP, the Hub's own transfer protocol, S3.
    """
    stop = threading.Event()

    def report() -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            on_progress(min(bytes_of(directory.rglob("*")), total), total)

    reporter = threading.Thread(target=report, name=f"progress of {directory.parent.name}", daemon=True)
    on_progress(0, total)
    reporter.start()
    try:
        yield
    finally:
        stop.set()
        reporter.join()
    on_progress(total, total)
