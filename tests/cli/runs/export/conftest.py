"""A run to export, and a call that exports it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cosmos_batch.cli.deployment import Deployment
from cosmos_batch.cli.runs.export.formats import FORMATS
from cosmos_batch.cli.runs.stored_run import stored_run
from cosmos_batch.contract.runs import ResultLine
from tests.support.run_objects import put_run

Export = Callable[[str, Sequence[ResultLine]], tuple[Path, list[str]]]


@pytest.fixture
def export(deployment: Deployment, tmp_path: Path) -> Export:
    """Provide a function that exports lines in a format, and returns the path and the notes."""

    def export_lines(name: str, lines: Sequence[ResultLine]) -> tuple[Path, list[str]]:
        put_run(deployment.clients("s3"), "r", [lines[:2], lines[2:]] if len(lines) > 2 else [lines] if lines else [])
        objects, path = stored_run(deployment, "r"), tmp_path / "exported"
        return path, FORMATS[name].write(objects, objects.lines(), path)

    return export_lines
