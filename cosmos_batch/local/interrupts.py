"""Hold back an interrupt (Ctrl-C, SIGINT) while something is done that must not be done by half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Let an interrupt that comes within the block take effect at its end.

    ``subprocess.Popen`` waits for its child after the fork. An interrupt at that moment would leave a process that
    nobody knows. A child that is started within the block has the default handler: exec resets handlers.

    Only the main thread is interrupted, and not where the interrupt is ignored, as in a shell's background: there the
    block changes nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler in (None, signal.SIG_IGN):
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)
