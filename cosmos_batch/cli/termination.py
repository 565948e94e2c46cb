"""End a command on SIGTERM as on Ctrl-C, and on each Ctrl-C, so that what it has started is stopped."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PAUSE_SECONDS = 0.05


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


@contextmanager
def lost_interrupts_sent_again() -> Iterator[None]:
    """Send an interrupt again that Python has ignored, for the length of the block.

    Python prints and drops an exception that is raised in a finalizer or in the callback of a weak reference, and a
    KeyboardInterrupt may be raised anywhere: https://docs.python.org/3/library/sys.html#sys.unraisablehook
    """
    report = sys.unraisablehook

    def send_again(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)
            return
        # After this hook has returned: an exception that is raised in it is dropped too.
        threading.Timer(_PAUSE_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()

    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = report
