"""The peak memory of each part of a local cloud and of the commands that are typed beside it, read from `/proc`."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PERIOD_SECONDS = 1.0
_FUNCTION = re.compile(r"/logs/lambda/[^/]*-Functions(?P<name>[A-Za-z]+?)[0-9A-F]{8}[^/]*/")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


class PeakMemory:
    """Watches all processes of the cloud whose files lie in `home`; `peaks` are MiB by the part's name."""

    def __init__(self, home: Path) -> None:
        self._home = str(home)
        self.peaks: dict[str, float] = {}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Read the memory of the processes once a second while the context lasts."""
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(PERIOD_SECONDS):
            for process, part in parts(self._home):
                self._note(process, part)

    def _note(self, process: Path, part: str) -> None:
        try:
            peak = _PEAK.search((process / "status").read_text(encoding="utf-8"))
        except OSError:
            return  # it has ended
        if peak is not None:
            self.peaks[part] = max(self.peaks.get(part, 0.0), round(int(peak[1]) / 1024, 1))


def parts(home: str) -> Iterator[tuple[Path, str]]:
    """Yield every process that belongs to a cloud, with the name of its part."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            part = part_of(process, home)
        except OSError:
            continue  # it has ended, or is another user's
        if part is not None:
            yield process, part


def part_of(process: Path, home: str) -> str | None:
    """Return the name of the part of the cloud that a process belongs to; None if it belongs to none."""
    function = _FUNCTION.search(output := str((process / "fd" / "1").readlink()))
    if function is not None and output.startswith(home):
        return f"function {function['name']}"
    command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if home not in (process / "environ").read_bytes().decode(errors="replace") + command:
        return None
    if "cosmos_batch.local.server" in command:
        return "local cloud"
    if "cosmos_batch.worker" in command:
        return "worker"
    return "command line" if "cosmos_batch.cli" in command else None
