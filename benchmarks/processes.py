"""The processes of this machine, read from `/proc`."""

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
