"""The four calls of the table, with plain Python values."""

import subprocess
import sys
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosmos_batch.state import ConditionFailed, Table

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBERS = st.integers(-(10**15), 10**15) | st.floats(-1e6, 1e6).map(lambda number: round(number, 4))
VALUES = st.recursive(
    TEXT | NUMBERS | st.booleans(), lambda inner: st.dictionaries(TEXT.filter(bool), inner, max_size=3)
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_values_are_read_as_written(table: Table, value: Any) -> None:
    key = str(uuid.uuid4())
    table.put_new(key, "row", {"value": value})
    assert table.get(key, "row") == {"pk": key, "sk": "row", "value": value}


def test_a_row_is_created_once(table: Table) -> None:
    table.put_new("a", "row", {"value": 1})
    with pytest.raises(ConditionFailed):
        table.put_new("a", "row", {"value": 2})
    assert table.get("a", "row") == {"pk": "a", "sk": "row", "value": 1}
    assert table.get("a", "other") is None


def test_none_values_are_left_out(table: Table) -> None:
    table.put_new("a", "row", {"value": None, "inner": {"none": None, "one": 1}})
    assert table.get("a", "row") == {"pk": "a", "sk": "row", "inner": {"one": 1}}


def test_an_update_returns_the_row_and_may_have_a_condition(table: Table) -> None:
    table.put_new("a", "row", {"count": 1, "inner": {"state": "x"}})
    row = table.update("a", "row", "SET #count = #count + :one, #inner.#state = :y", {"one": 1, "y": "y"})
    assert (row["count"], row["inner"]) == (2, {"state": "y"})
    with pytest.raises(ConditionFailed):
        table.update("a", "row", "SET #count = :one", {"one": 1}, "#count IN (:one)")


def test_a_query_returns_all_pages_in_order(table: Table) -> None:
    for number in reversed(range(30)):
        table.put_new("a", f"worker#{number:02}", {"text": "x" * 60_000})
    table.put_new("a", "pipeline", {})
    rows = table.query("a", "worker#")
    assert [row["sk"] for row in rows] == [f"worker#{number:02}" for number in range(30)]
    assert len(table.query("a")) == 31


def test_the_package_is_imported_without_boto3() -> None:
    program = "import sys, cosmos_batch.state; print('boto3' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
