"""Export a run as a Parquet file."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow
import pyarrow.parquet

from cosmos_batch.cli.runs.export.table_rows import COLUMNS, row_of
from cosmos_batch.cli.runs.stored_run import StoredRun
from cosmos_batch.contract.runs import ResultLine

_GROUP_ROWS = 2000  # rows that are held in memory and written together
_TYPES = {
    str: pyarrow.string(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
    list: pyarrow.list_(pyarrow.string()),
}
SCHEMA = pyarrow.schema([(name, _TYPES[kind]) for name, kind in COLUMNS.items()])


def write(run: StoredRun, lines: Iterator[ResultLine], path: Path) -> list[str]:
    """Write a row for each line; the file's metadata names the run."""
    schema = SCHEMA.with_metadata({"run": run.run})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := [row_of(line) for line in islice(lines, _GROUP_ROWS)]:
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return []
