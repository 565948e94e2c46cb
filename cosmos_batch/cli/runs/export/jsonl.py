"""Export a run as JSON Lines: the lines as they lie in the run's parts, in one file."""

from collections.abc import Iterator
from pathlib import Path

from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine


def write(_: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write each line without the fields that do not apply to it."""
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            file.write(line.model_dump_json(exclude_defaults=True) + "\n")
    return []
