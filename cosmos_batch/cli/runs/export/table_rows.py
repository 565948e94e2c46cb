"""Convert a line of a run to a row of a table, with the columns of Parquet and CSV."""

import json
from typing import Any

from cosmos_batch.contract.runs import ResultLine

Cell = str | int | float | bool | list[str] | None

# Each column with the type of its values. An absent value is None.
COLUMNS: dict[str, type] = {
    "id": str,
    "input": str,
    "variant": str,
    "prompt": str,
    "status": str,
    "answer": str,
    "reasoning": str,
    "data": str,
    "outputs": list,
    "document": str,
    "notes": list,
    "error_code": str,
    "error_message": str,
    "error_remedy": str,
    "pipeline": str,
    "model": str,
    "revision": str,
    "job_id": str,
    "prompt_tokens": int,
    "completion_tokens": int,
    "seconds": float,
    "gpu_seconds": float,
    "dollars": float,
    "reused": bool,
}


def row_of(line: ResultLine) -> dict[str, Cell]:
    """Return the row of a line. `variant` and `data` are JSON; `outputs` has the URIs of the files."""
    error, usage = line.error, line.usage
    same = {name: getattr(line, name) for name in COLUMNS if name in ResultLine.model_fields}
    return {
        **same,
        "variant": _json(line.variant) if line.variant else None,
        "status": "succeeded" if error is None else "failed",
        "data": None if line.data is None else _json(line.data),
        "outputs": [output.uri for output in line.outputs],
        "error_code": error and error.code,
        "error_message": error and error.message,
        "error_remedy": error and error.remedy,
        "prompt_tokens": usage and usage.prompt_tokens,
        "completion_tokens": usage and usage.completion_tokens,
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
