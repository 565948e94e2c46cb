"""A page that a command serves in a process of its own, as a person opens and ends it."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class ServedPage:
    """The process that serves the page, and what its URL names."""

    process: subprocess.Popen[str]
    url: str
    token: str

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit status, and what was printed to standard error since the URL."""
        self.process.send_signal(signal.SIGINT)
        _, printed = self.process.communicate()
        return self.process.returncode, printed


@contextmanager
def served_page(*arguments: str, ignores_interrupts: bool = False) -> Iterator[ServedPage]:
    """Run a command until it has printed the URL of its page; what still runs after the block is killed."""
    command = [sys.executable, "-m", "cosmos_batch.cli", *arguments]
    at_start = signal.SIG_IGN if ignores_interrupts else signal.SIG_DFL
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, at_start),
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            printed = ""
            for line in process.stderr:
                printed += line
                if match := re.search(r"(http://127\.0\.0\.1:\d+)/#token=(\S+)", line):
                    yield ServedPage(process, *match.groups())
                    return
            raise AssertionError(f"no URL was printed: {printed}")
        finally:
            process.kill()
