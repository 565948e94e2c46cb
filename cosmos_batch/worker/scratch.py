"""The folder for a worker's temporary files, on the disk that all workers of a host share."""

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
    """Let this process and its children create temporary files in a folder of their own, which is removed at the end.

    Folders of workers that were killed are removed too. They are recognized by their lock: the kernel releases it when
    the process that holds it ends for whatever reason.
    """
    if environment.scratch is None:
        yield
        return
    root = Path(environment.scratch)
    folder = root / environment.aws_batch_job_id
    lock = _create_locked(folder)
    try:
        _remove_abandoned(root)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
        yield
    finally:
        tempfile.tempdir = None
        os.environ.pop("TMPDIR", None)
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _create_locked(folder: Path) -> int:
    """Create and lock the folder, and return its descriptor.

    Before it is locked, another worker may take the folder for abandoned and remove it; then both are repeated.
    """
    while True:
        folder.mkdir(exist_ok=True)
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists() and folder.stat().st_ino == os.fstat(lock).st_ino:
            return lock
        os.close(lock)


def _remove_abandoned(root: Path) -> None:
    for folder in root.iterdir():
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue  # removed meanwhile, or not a folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # its worker still runs
        finally:
            os.close(lock)
