"""A lock for one model on the shared file system, which excludes other threads, processes and hosts."""

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
    """Hold the lock file `path`. While another holds it, wait and write so to the log.

    The lock is `flock`, which Linux passes to an NFSv4 server as a byte-range lock on the whole file, so it excludes
    other hosts. When its holder dies the kernel releases it; for a dead host that is the end of its NFS lease. `lockf`
    would take the same lock on the server, but for the process: two threads of one worker, one of them backing up,
    would both get it, and the first to close the file would release it for both. The file is never removed, because
    another process may be waiting for a lock on it.
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
            logger.info("another worker holds the lock of %s; waiting since %.0f s", path.parent.name, now - began)
            report_at = now + _REPORT_SECONDS
        time.sleep(_POLL_SECONDS)


def _try(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
