"""Keep lines and ids on this machine's disk, so that a run of any size is planned in constant memory."""

import contextlib
import hashlib
import heapq
import itertools
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

SORTED_IN_MEMORY = 50_000  # lines


class LinesOnDisk:
    """A list of lines in a temporary file, which is gone when it is closed or when the process ends."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="cosmos-batch-run-")  # noqa: SIM115 - it outlives this call
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, line: bytes) -> None:
        """Append a line, which ends with a line break."""
        self._file.write(line)
        self._count += 1

    def __iter__(self) -> Iterator[bytes]:
        """Yield all lines. No line may be added meanwhile."""
        self._file.seek(0)
        yield from self._file

    def close(self) -> None:
        """Delete the lines."""
        self._file.close()


class SeenIds:
    """A set of ids, each with the line of its first item. It keeps 16 bytes of a digest of each in a SQLite file.

    A million ids take five seconds. SQLite holds 64 MiB of them in memory, and the rest on the disk.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cosmos-batch-ids-")
        self._base = sqlite3.connect(Path(self._folder.name) / "ids", isolation_level=None)
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("PRAGMA synchronous = OFF")
        self._base.execute("PRAGMA cache_size = -65536")  # KiB
        self._base.execute("CREATE TABLE ids (id BLOB PRIMARY KEY, place TEXT) WITHOUT ROWID")
        self._base.execute("BEGIN")

    def add(self, name: str, place: str) -> str | None:
        """Add an id with its place. Returns the place of the first one with this id, or None if it is new."""
        digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
        if self._base.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (digest, place)).rowcount:
            return None
        row = self._base.execute("SELECT place FROM ids WHERE id = ?", (digest,)).fetchone()
        return str(row[0])

    def close(self) -> None:
        """Delete the file."""
        self._base.close()
        self._folder.cleanup()


def sorted_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, which end with a line break, in order. Of more than `SORTED_IN_MEMORY`, parts are sorted on disk."""
    rest = iter(lines)
    last = sorted(itertools.islice(rest, SORTED_IN_MEMORY))
    with contextlib.ExitStack() as open_parts:
        parts: list[Iterable[bytes]] = []
        while following := sorted(itertools.islice(rest, SORTED_IN_MEMORY)):
            part = open_parts.enter_context(contextlib.closing(LinesOnDisk()))
            for line in last:
                part.add(line)
            parts.append(part)
            last = following
        yield from heapq.merge(*parts, last)
