"""The benchmark of planning measures what it says, here over a thousandth of its keys."""

import pytest

from benchmarks.runs.plan import measure


def test_a_plan_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    [row] = measure(keys=100)
    assert row.name == "plan of a run over 100 keys"
    assert row.met and row.raw["plan_seconds"] > 0
