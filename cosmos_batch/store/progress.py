"""Progress of a copy, measured by what has reached the disk or left it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cosmos_batch.store.manifest import bytes_of

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all."""

_INTERVAL_SECONDS = 0.5


def silent(_done: int, _total: int) -> None:
    """Report to nobody."""


def counter(total: int, on_progress: Progress) -> Callable[[int], None]:
    """Sums the bytes that it is called with, by several threads, and reports each sum."""
    lock, done = threading.Lock(), 0

    def count(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            on_progress(done, total)

    return count


@contextmanager
def report_progress(directory: Path, total: int, on_progress: Progress) -> Iterator[None]:
    """Report how much of `total` bytes lies in `directory`: at the start, twice a second from a thread, and at the end.

    Looking at the disk holds for every way of filling it: plain HTTP, the Hub's own transfer protocol, S3.
    """
    stop = threading.Event()

    def report() -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            with suppress(FileNotFoundError):  # a folder was removed while it was listed
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
