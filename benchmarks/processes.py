"""The processes of this machine, read from `/proc`."""

import os
from pathlib import Path


def children(process: int) -> list[int]:
    """Return the ids of all processes that descend from a process."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found: list[int] = []
    waiting = [process]
    while waiting:
        parent = waiting.pop()
        own = [child for child, of in parents.items() if of == parent]
        found, waiting = found + own, waiting + own
    return found


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and all its threads so far, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, see man 5 proc
