"""One filler of a model at a time, across threads, processes and hosts."""

import fcntl
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_REPORT_SECONDS = 60.0


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; wait for it as long as another holds it, and say so in the log.

    The lock is `flock`, which Linux carries to an NFSv4 server as a byte-range lock on the whole file: it excludes
    other hosts, and the kernel (for a dead host, the end of its NFS lease) releases it when its holder dies. `lockf`
    takes the same lock on the server, but it belongs to a process: two threads of one worker, one of them backing up,
    would both get it, and the first to close the file would release it for both. The file is never removed: a waiter
    would hold a lock on a name that is gone.
    """
    # NFS grants an exclusive lock only on a file that is open for writing.
    with path.open("a", encoding="utf-8") as file:
        _acquire(file, path)
        yield


def _acquire(file: IO[str], path: Path) -> None:
    began = time.monotonic()
    report_at = began
    while not _try(file):
        now = time.monotonic()
        if now >= report_at:
            logger.info("another worker is at work on %s; waiting for it since %.0f s", path.parent.name, now - began)
            report_at = now + _REPORT_SECONDS
        time.sleep(_POLL_SECONDS)


def _try(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
