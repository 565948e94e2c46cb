"""Reports the progress of a download or upload in bytes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cosmos_batch.store.manifest import bytes_of

ByteProgress = Callable[[int, int], None]
"""A function that is called with the bytes done and the bytes in all."""

_INTERVAL_SECONDS = 0.5


def silent(_done: int, _total: int) -> None:
    """Ignore the progress."""


def counter(total: int, on_progress: ByteProgress, done: int = 0) -> Callable[[int], None]:
    """Return a thread-safe function that adds the bytes it is called with to those `done`, and reports each sum."""
    lock = threading.Lock()

    def count(more: int) -> None:
        nonlocal done
        with lock:
            done += more
            on_progress(done, total)

    return count


@contextmanager
def report_progress(directory: Path, total: int, on_progress: ByteProgress) -> Iterator[None]:
    """Report how many of `total` bytes are in `directory`: at the start, twice a second from a thread, and at the end.

    The size on disk works for every transfer: plain HTTP, the Hub's own protocol, S3.
    """
    stop = threading.Event()

    def report() -> None:
        while not stop.wait(_INTERVAL_SECONDS):
            with suppress(FileNotFoundError):  # a folder was deleted while it was listed
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
