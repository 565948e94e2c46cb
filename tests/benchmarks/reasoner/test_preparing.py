"""The benchmark of preparing requests, with a few clips."""

import json
from pathlib import Path

import pytest

from benchmarks.reasoner import preparing


def test_both_ways_are_measured_with_all_cores_and_with_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[list[int]] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: set(range(6)))
    monkeypatch.setattr("os.sched_setaffinity", lambda _process, some: used.append(list(some)))
    rates = preparing.rates(tmp_path, 2)
    ways = [(one["cores"], one["atOnce"], one["way"]) for one in rates]
    assert ways == [(cores, cores // 2, way) for cores in (6, 4) for way in ("threads", "processes")]
    assert used == [list(range(6)), list(range(4)), list(range(6))], "and all cores again"
    assert all(one["perSecond"] > 0 for one in rates)


def test_a_row_says_how_processes_compare_with_threads() -> None:
    both = {"cores": 4, "atOnce": 2}
    row = preparing._row({**both, "way": "threads", "perSecond": 40.0}, {**both, "way": "processes", "perSecond": 50.0})
    assert row.name.endswith("prepared with 4 cores, 2 at once")
    assert row.value == "50.0 a second in processes, 1.25 of 40.0 in threads"


def test_its_command_writes_where_and_when_it_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["preparing", "--clips", "2", "--into", str(tmp_path / "found.json")])
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {0})
    monkeypatch.setattr("os.sched_setaffinity", lambda _process, _some: None)
    preparing.main()
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert {"machine", "day", "commit"} <= found.keys() and found["clips"] == 2
    assert [[one["way"] for one in run] for run in found["runs"]] == 2 * [["threads", "processes"]]
