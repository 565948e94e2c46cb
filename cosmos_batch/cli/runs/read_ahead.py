"""Read several objects of S3 at once, in the order in which they are wanted, with few in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Wanted = TypeVar("Wanted")
Read = TypeVar("Read")


def read_ahead(read: Callable[[Wanted], Read], wanted: Iterable[Wanted], at_once: int) -> Iterator[tuple[Wanted, Read]]:
    """Yield each element with what `read` returns for it, while threads read those that follow.

    At most `at_once` are held at a time. An exception of `read` is raised when its element's turn comes.
    """
    reading: deque[tuple[Wanted, Future[Read]]] = deque()
    with ThreadPoolExecutor(at_once) as pool:
        for one in wanted:
            reading.append((one, pool.submit(read, one)))
            if len(reading) == at_once:
                first, result = reading.popleft()
                yield first, result.result()
        while reading:
            first, result = reading.popleft()
            yield first, result.result()
