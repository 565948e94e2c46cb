"""Tables of a run: Parquet, CSV, JSON Lines and OpenAI's batch results."""

import csv
import json

import pyarrow.parquet
import pytest

from cosmos_batch.cli.runs.export import parquet
from cosmos_batch.cli.runs.export.table_rows import COLUMNS
from cosmos_batch.contract.result import Output
from cosmos_batch.contract.runs import ResultLine
from tests.cli.runs.export.conftest import Export
from tests.support.run_objects import BAD, answered, failed

LINES = [
    answered("a.mp4", "A car turns.", data={"turns": [1, 2]}, variant={"seed": 1}, notes=["sampled down"]),
    failed("b.mp4"),
    answered("c.mp4", "", outputs=[Output(uri="s3://assets/c.json", size=9, content_type="application/json")]),
]


def test_parquet_has_a_typed_row_for_each_item(export: Export) -> None:
    path, notes = export("parquet", LINES)
    table = pyarrow.parquet.read_table(path)
    rows = {row["id"]: row for row in table.to_pylist()}
    assert notes == [] and table.column_names == list(COLUMNS)
    assert table.schema.metadata[b"run"] == b"r"
    first = rows["a.mp4"]
    assert (first["status"], first["answer"], first["dollars"]) == ("succeeded", "A car turns.", 0.001)
    assert json.loads(first["data"]) == {"turns": [1, 2]} and json.loads(first["variant"]) == {"seed": 1}
    assert first["notes"] == ["sampled down"] and first["prompt_tokens"] == 100 and first["reused"] is False
    second = rows["b.mp4"]
    assert (second["status"], second["error_code"], second["error_remedy"]) == ("failed", BAD.code, BAD.remedy)
    assert second["answer"] is None and second["dollars"] is None and second["outputs"] == []
    assert rows["c.mp4"]["outputs"] == ["s3://assets/c.json"]


def test_parquet_is_written_in_groups_of_rows(export: Export, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_ROWS", 2)
    path, _ = export("parquet", [answered(f"{number}") for number in range(5)])
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3


def test_an_empty_run_is_an_empty_table(export: Export) -> None:
    path, _ = export("parquet", [])
    assert pyarrow.parquet.read_table(path).num_rows == 0


def test_csv_has_the_same_columns(export: Export) -> None:
    path, _ = export("csv", LINES)
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    assert list(rows["a.mp4"]) == list(COLUMNS)
    assert rows["a.mp4"]["notes"] == '["sampled down"]' and rows["b.mp4"]["error_code"] == "InvalidInput"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "  =", "＝", "\u00a0+"])
def test_no_cell_of_a_csv_file_is_a_formula(start: str, export: Export) -> None:
    text = f'{start}HYPERLINK("http://x","y"), said "the" model,\n=1+1'
    path, _ = export("csv", [answered("a", text, reasoning=text, variant={"prompt": text}, notes=[text])])
    with path.open(encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["answer"] == f"'{text}" == row["reasoning"]
    assert not any(cell.lstrip().startswith(("=", "+", "-", "@", "＝")) for cell in row.values())


def test_json_lines_are_the_lines_of_the_run(export: Export) -> None:
    path, _ = export("jsonl", LINES)
    read = [ResultLine.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert sorted(read, key=lambda line: line.id) == LINES


def test_results_for_openai_have_a_response_or_an_error(export: Export) -> None:
    lines = [answered("one", reasoning="Wheels."), failed("two"), answered("three", answer=None)]
    path, notes = export("openai", lines)
    results = {result["custom_id"]: result for result in map(json.loads, path.read_text(encoding="utf-8").splitlines())}
    body = results["one"]["response"]["body"]
    assert results["one"]["response"]["status_code"] == 200 and results["one"]["error"] is None
    assert body["object"] == "chat.completion" and body["model"] == "nvidia/Cosmos-Reason2-2B"
    message = {"role": "assistant", "content": "A car turns.", "reasoning_content": "Wheels."}
    assert body["choices"][0]["message"] == message
    assert body["usage"] == {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    assert results["two"]["response"] is None and results["two"]["error"]["code"] == "InvalidInput"
    assert set(results) == {"one", "two"} and "1 generation left out" in notes[0]
