"""Call a function for any number of values in threads, and yield its results in order and in constant memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Value = TypeVar("Value")
Result = TypeVar("Result")

THREADS = 16
_AHEAD = 4  # values under way for each thread


def in_parallel(
    function: Callable[[Value], Result],
    values: Iterable[Value],
    threads: int = THREADS,
    give_up: Callable[[], object] = lambda: None,
) -> Iterator[Result]:
    """Yield the function's results in the order of the values. The first exception ends it; what waits is dropped.

    What is under way is waited for. `give_up` is called before, where it ends early, as after Ctrl-C.
    """
    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for value in values:
                pending.append(pool.submit(function, value))
                if len(pending) >= threads * _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BaseException:
            give_up()
            raise
        finally:
            for future in pending:
                future.cancel()
