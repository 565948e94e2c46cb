"""A worker's folder on the disk that all workers of a host share."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosmos_batch.contract.environment import WorkerEnvironment


@contextmanager
def worker_folder(environment: WorkerEnvironment) -> Iterator[None]:
    """Make temporary files, ours and those of our children, in a folder of this worker's; gone at its end.

    The folders of workers that could not tidy up go too. A lock tells them apart: it is the kernel's, and ends with the
    process that holds it, whatever ended that.
    """
    if environment.scratch is None:
        yield
        return
    root = Path(environment.scratch)
    folder = root / environment.aws_batch_job_id
    lock = _lock_new(folder)
    try:
        _remove_abandoned(root)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        yield
    finally:
        tempfile.tempdir = None
        os.environ.pop("TMPDIR", None)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _lock_new(folder: Path) -> int:
    """The folder, made and locked. A neighbour may have removed it between the two, taking it for abandoned."""
    while True:
        folder.mkdir(exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists() and folder.stat().st_ino == os.fstat(lock).st_ino:
            return lock
        os.close(lock)


def _remove_abandoned(root: Path) -> None:
    for folder in root.iterdir():
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # gone meanwhile, or no folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # its worker lives
        finally:
            os.close(lock)
