"""The formats of `runs export`. The modules that write them load when they are used, because libraries load slowly."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine


@dataclass(frozen=True)
class ExportFormat:
    """A format: the module that writes it, the ending of its files (empty for a folder), and what it holds."""

    module: str
    ending: str
    description: str

    def write(self, run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
        """Write the lines to a path that does not exist, and return notes for the person."""
        module = import_module(f"cosmos_batch.cli.runs.export.{self.module}")
        return cast(list[str], module.write(run, lines, path))


FORMATS = {
    "parquet": ExportFormat("parquet", ".parquet", "a table"),
    "csv": ExportFormat("csv_file", ".csv", "a table"),
    "jsonl": ExportFormat("jsonl", ".jsonl", "a JSON object a line, with everything"),
    "coco": ExportFormat("coco", ".json", "boxes on images, in pixels"),
    "fiftyone": ExportFormat("fiftyone", "", "a folder with the media and a FiftyOne dataset"),
    "sheets": ExportFormat("contact_sheets", "", "a contact sheet for each prompt of a generator"),
    "openai": ExportFormat("openai_batch", ".jsonl", "the output file of OpenAI's Batch API"),
}
