"""The comparison asks raw vLLM the right questions. A function that answers at once stands in for vLLM's process."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reasoner import comparison
from benchmarks.reasoner.clips import make_clips
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.reasoner.vllm.command import VllmPlan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[list[dict[str, str]]]]:
    """Return a list to which each process of raw vLLM adds the passes that it is asked for.

    A benchmark moves the folder of temporary files for the rest of its process, which is undone after the test.
    """
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())
    monkeypatch.setattr(tempfile, "tempdir", None)
    processes: list[Any] = []

    def answer(_raw: comparison.RawVllm, passes: list[Any], _folder: Path) -> dict[str, Any]:
        processes.append(passes)
        return {"passes": [{"tokens": len(questions)} for questions in passes]}

    monkeypatch.setattr(comparison.RawVllm, "_ask", answer)
    return processes


def test_more_clips_than_there_are_files_are_the_same_ones_with_other_system_prompts(
    tmp_path: Path, asked: list[list[list[dict[str, str]]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "DIFFERENT", 5)
    workload = replace(comparison.TINY, clips=12, passes=2, warm_up=2)
    results: dict[str, Any] = {}
    comparison.measure(workload, ["raw"], tmp_path, tmp_path / "found.json", results)
    [[warm_up, *passes]] = asked
    assert [len(one) for one in (warm_up, *passes)] == [2, 12, 12]
    questions = [(one["system"], one["frames"]) for questions in passes for one in questions]
    assert len(set(questions)) == 24 and len({frames for _, frames in questions}) == 5
    assert [one["tokens"] for one in results["raw"]["passes"]] == [12, 12], "the warm-up is told apart"


def test_each_process_answers_a_clip_of_its_own(tmp_path: Path, asked: list[list[list[dict[str, str]]]]) -> None:
    build_random_checkpoint(tmp_path / "models")
    make_clips(tmp_path / "clips-1", 3, 1)
    workload = replace(comparison.TINY, clips=3)
    comparison.measure(workload, ["process"], tmp_path, tmp_path / "found.json", {}, processes=2)
    assert [len(passes[0]) for passes in asked] == [1, 1]
    assert len({passes[0][0]["system"] for passes in asked}) == 2


def test_the_workers_passes_take_no_number_of_clips() -> None:
    assert comparison.parse(["--steps", "raw,process", "--clips", "1000"]).clips == 1000
    for steps in ([], ["--steps", "raw,worker"]):
        with pytest.raises(SystemExit):
            comparison.parse([*steps, "--clips", "1000"])


def test_raw_vllm_has_the_options_for_fp8_that_the_workers_server_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server's options are compared with and without the lossy modes; those that are added are raw vLLM's too."""
    build_random_checkpoint(tmp_path)
    [model] = [path.parent for path in tmp_path.rglob("config.json")]
    exact, in_fp8 = (
        VllmPlan(context=512, sequences=8, gpus=1, fp8=on, fp8_cache=on).command(model, tmp_path)
        for on in (False, True)
    )
    options = comparison._engine_options(["fp8", "fp8Cache"])
    added = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    place = in_fp8.index(added[0])
    assert in_fp8[:place] + in_fp8[place + len(added) :] == exact
    assert in_fp8[place : place + len(added)] == added


def test_the_worker_and_its_start_are_measured_in_fp8_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert comparison.parse(["--steps", "raw,process", "--lossy", "fp8"]).lossy == ["fp8"]
    for steps in (["--steps", "worker"], ["--steps", "start"], []):
        with pytest.raises(SystemExit):
            comparison.parse([*steps, "--lossy", "fp8"])
    assert "benchmarks.reasoner.gpu has it for the worker" in capsys.readouterr().err
