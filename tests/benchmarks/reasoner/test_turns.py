"""Raw vLLM and our worker are measured in turn. A function that writes results stands in for their processes."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.reasoner import comparison, gpu, turns

MODULES = {f"benchmarks.reasoner.{name}": module for name, module in (("comparison", comparison), ("gpu", gpu))}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list to which each process adds the options that its benchmark would have. The fourth one fails."""
    found: list[Any] = []

    def run(command: list[str], check: bool) -> None:
        assert command[:2] == [sys.executable, "-m"] and check
        options = MODULES[command[2]].parse(command[3:])
        found.append((command[2].split(".")[-1], options))
        if len(found) == 4:
            raise subprocess.CalledProcessError(1, command)
        steps = options.steps.split(",") if command[2].endswith(".comparison") else [options.name]
        options.into.write_text(json.dumps(dict.fromkeys(steps, len(found))))

    monkeypatch.setattr(turns, "subprocess", SimpleNamespace(run=run))
    return found


def test_both_have_a_pass_of_as_many_clips_in_each_round_and_one_that_fails_leaves_those_before(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    into = tmp_path / "results" / "found.json"
    monkeypatch.setattr(
        sys, "argv", ["turns", "--work", str(tmp_path / "work"), "--into", str(into), "--clips", "300", "--shape", "8b"]
    )
    with pytest.raises(subprocess.CalledProcessError):
        turns.main()
    assert [name for name, _ in started] == ["comparison", "gpu", "gpu", "comparison"]
    assert {(options.shape, options.work) for _, options in started} == {("8b", tmp_path / "work")}
    of_raw, of_worker = (options for _, options in started[:2])
    assert (of_raw.steps, of_raw.passes, of_raw.clips) == ("raw", 1, 300)
    assert (of_worker.passes, of_worker.steady) == (0, 300)
    found = json.loads(into.read_text())
    assert (found["clips"], found["rounds"]) == (300, [{"raw": 1, "worker": 2}, {"worker": 3}])
    assert not of_raw.lossy and not of_worker.lossy


def test_both_compute_in_the_same_precision(
    tmp_path: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["turns", "--work", str(tmp_path), "--into", str(tmp_path / "found.json"), "--lossy", "fp8,fp8Cache"]
    monkeypatch.setattr(sys, "argv", [*words, "--rounds", "1"])
    turns.main()
    assert [(name, options.lossy) for name, options in started] == [
        ("comparison", ["fp8", "fp8Cache"]),
        ("gpu", ["fp8", "fp8Cache"]),
    ]
    assert started[1][1].name == "fp8-fp8Cache", "what is compiled in FP8 is kept apart"
    assert json.loads((tmp_path / "found.json").read_text())["lossy"] == ["fp8", "fp8Cache"]


@pytest.mark.parametrize(("module", "more"), [(gpu, []), (comparison, ["--steps", "raw"]), (turns, [])])
def test_a_lossy_mode_that_does_not_exist_is_refused(
    module: Any, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        module.parse([*more, "--work", "w", "--into", "f", "--lossy", "FP8"])
    assert "FP8: not one of fp8, fp8Cache" in capsys.readouterr().err
