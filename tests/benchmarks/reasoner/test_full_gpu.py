"""The check of vLLM on a GPU whose memory others hold, on a CPU with a tiny model."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.reasoner import full_gpu, true_shapes
from cosmos_batch.contract.error import Failure
from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from tests.support.real_vllm import needs_vllm

pytestmark = [needs_vllm, pytest.mark.slow, pytest.mark.timeout(600)]


def test_each_case_is_written_with_what_came_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[float] = []

    @contextmanager
    def holding(free: float) -> Iterator[None]:
        held.append(free)
        yield

    load = VllmEngine.load

    def with_room(engine: VllmEngine, *arguments: object) -> None:
        if held[-1:] == [3.0]:
            raise Failure("EngineFailed", "There is no room.", "Choose another GPU.")
        load(engine, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("tempfile.tempdir", None)  # it is changed, and put back after the test
    monkeypatch.setattr(full_gpu, "holding_all_but", holding)
    monkeypatch.setattr(VllmEngine, "load", with_room)
    monkeypatch.setattr(true_shapes, "build", lambda _, work: build_random_checkpoint(work))
    into = tmp_path / "found.json"
    monkeypatch.setattr("sys.argv", ["full_gpu", *f"--into {into} --work {tmp_path} --free 3,24".split()])
    full_gpu.main()
    found = json.loads(into.read_text(encoding="utf-8"))
    assert held == [3.0, 24.0, full_gpu._LEFT]
    assert found["3 GiB free"]["error"]["message"] == "There is no room."
    assert found["24 GiB free"]["plan"] == found["filled after loading"]["plan"]
    answers = [found["24 GiB free"]["job"], *(found["filled after loading"][when] for when in ("full", "afterwards"))]
    assert answers == ["answered with 64 tokens"] * 3
