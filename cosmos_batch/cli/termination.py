"""End a command on SIGTERM as on Ctrl-C, so that what it has started is stopped and nothing is left behind."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Termination:
    """A record of whether SIGTERM came while a command ran."""

    came: bool = False


@contextmanager
def interrupted_by_sigterm() -> Iterator[Termination]:
    """Turn SIGTERM into an interrupt for the length of the block, where this is the main thread."""
    termination = Termination()
    if threading.current_thread() is not threading.main_thread():
        yield termination
        return

    def interrupt(*_: object) -> None:
        termination.came = True
        if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell's script starts programs in the background so
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)  # it is held back while a process is started

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield termination
    finally:
        signal.signal(signal.SIGTERM, before)
