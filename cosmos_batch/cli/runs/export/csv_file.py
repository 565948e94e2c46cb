"""Export a run as a CSV file (RFC 4180, UTF-8).

A spreadsheet runs a cell that begins with certain characters as a formula, and answers and names of files are written
by models and strangers. Such a cell gets an apostrophe before its text, as OWASP advises
(https://owasp.org/www-community/attacks/CSV_Injection).
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from cosmos_batch.cli.runs.export.table_rows import COLUMNS, Cell, row_of
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine

# The last four are the full-width forms of the first four, which spreadsheets in Japanese take for the same.
_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_CONTROL_STARTS = ("\t", "\r", "\n")


def write(_: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write a row for each line. Lists are JSON."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for line in lines:
            writer.writerow({name: _cell(value) for name, value in row_of(line).items()})
    return []


def _cell(value: Cell) -> Cell:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False) if value else None
    return _guarded(value) if isinstance(value, str) else value


def _guarded(text: str) -> str:
    """Return the text so that no spreadsheet takes it for a formula."""
    is_formula = text.startswith(_CONTROL_STARTS) or text.lstrip().startswith(_FORMULA_STARTS)
    return f"'{text}" if is_formula else text
