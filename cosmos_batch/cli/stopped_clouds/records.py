"""Write the JSON files in which jobs and runs of stopped clouds are kept, one for each."""

import json
from pathlib import Path
from typing import Any


def record_file(folder: Path, name: str) -> Path:
    """Return the file that keeps a job or a run in a folder, whether it exists or not."""
    return folder / f"{Path(name).name}.json"


def write_record(folder: Path, name: str, record: dict[str, Any]) -> None:
    """Write what is kept of a job or a run. An interrupted call leaves an earlier file as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    file = record_file(folder, name)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(record), encoding="utf-8")
    part.replace(file)
