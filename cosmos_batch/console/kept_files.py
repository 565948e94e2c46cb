"""Files that are made on demand, kept in a folder of bounded size, and made once for all who ask at the same time."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from cosmos_batch.contract.error import Failure

_FAILURES_KEPT = 10_000


@dataclass
class _Making:
    """The lock of the thread that makes a file, and how many threads hold it or wait for it."""

    lock: Lock = field(default_factory=Lock)
    users: int = 0


class KeptFiles:
    """A folder of files by keys. When it exceeds its limit, the files go that were not asked for the longest."""

    def __init__(self, folder: Path, limit: int) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._limit = limit
        self._lock = Lock()
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._failures: OrderedDict[str, Failure] = OrderedDict()
        self._making: dict[str, _Making] = {}

    def get(self, key: str, make: Callable[[Path], object]) -> Path:
        """Return the file of a key, after `make` has written it if there is none.

        Raises what `make` raises; a Failure is kept too, and raised again without another try.
        """
        name = hashlib.sha256(key.encode()).hexdigest()
        with self._lock:
            making = self._making.setdefault(name, _Making())
            making.users += 1
        try:
            with making.lock:
                return self._find(name) or self._make(name, make)
        finally:
            with self._lock:
                making.users -= 1
                if making.users == 0:  # while a thread waits for this lock, those that ask now must wait for it too
                    del self._making[name]

    def _find(self, name: str) -> Path | None:
        with self._lock:
            if name in self._failures:
                error = self._failures[name].error
                raise Failure.of(error)
            if name not in self._sizes:
                return None
            self._sizes.move_to_end(name)
            return self._folder / name

    def _make(self, name: str, make: Callable[[Path], object]) -> Path:
        path, partial = self._folder / name, self._folder / f"{name}.partial"
        try:
            make(partial)
            partial.replace(path)
        except Failure as failure:
            with self._lock:
                self._failures[name] = failure
                while len(self._failures) > _FAILURES_KEPT:
                    self._failures.popitem(last=False)
            raise
        finally:
            partial.unlink(missing_ok=True)
        self._keep(name, path.stat().st_size)
        return path

    def _keep(self, name: str, size: int) -> None:
        with self._lock:
            self._sizes[name] = size
            while len(self._sizes) > 1 and sum(self._sizes.values()) > self._limit:
                oldest, _ = self._sizes.popitem(last=False)
                (self._folder / oldest).unlink(missing_ok=True)
