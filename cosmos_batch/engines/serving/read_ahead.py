"""Reading weights into the page cache while the engine's process still imports its libraries.

A server maps the weights into memory and reads what it touches, one page fault after the other; if it reads ahead, it
does so in one stream for each file, and most Cosmos checkpoints are one file. A network file system is fast only with
many streams, and so is an NVMe disk.
"""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

STREAMS = 16
RANGE, BLOCK = 64 << 20, 4 << 20
_MEMORY = Path("/proc/meminfo")
_MEMORY_SHARE = 0.8  # the share of the available memory beyond which the kernel would drop what was read first


@contextmanager
def read_ahead(folder: Path, weights: Iterable[str] = ("**/*.safetensors",)) -> Iterator[ThreadPoolExecutor]:
    """Read the checkpoint's files that match `weights` in threads while the block runs; drop what is not begun at its
    end.

    Nothing is read if the files would not stay in memory.
    """
    readers = ThreadPoolExecutor(STREAMS, "read-ahead")
    try:
        files = sorted({path for pattern in weights for path in folder.glob(pattern)})
        if sum(path.stat().st_size for path in files) <= _MEMORY_SHARE * _available_memory():
            for path, begin, end in _ranges(files):
                readers.submit(_read, path, begin, end)
        yield readers
    finally:
        readers.shutdown(wait=False, cancel_futures=True)


def _ranges(files: list[Path]) -> Iterator[tuple[Path, int, int]]:
    for path in files:
        size = path.stat().st_size
        for begin in range(0, size, RANGE):
            yield path, begin, min(begin + RANGE, size)


def _read(path: Path, begin: int, end: int) -> None:
    """Read a part of a file, which the kernel keeps in its page cache. The engine meets and reports any error too."""
    block = bytearray(BLOCK)
    file = os.open(path, os.O_RDONLY)
    try:
        while begin < end and (read := os.preadv(file, [block], begin)):
            begin += read
    finally:
        os.close(file)


def _available_memory() -> int:
    """Return the available memory in bytes; 0 where the kernel does not report it."""
    if not _MEMORY.exists():
        return 0
    lines = dict(line.split(":", 1) for line in _MEMORY.read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10
