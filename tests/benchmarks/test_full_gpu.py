"""The check of an engine on a GPU whose memory others hold, on a CPU with a tiny model."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks import full_gpu
from benchmarks.generator import true_generator
from benchmarks.generator.jobs import TINY
from cosmos_batch.contract.error import Failure


@pytest.mark.slow  # it loads PyTorch and the tiny model
def test_each_case_is_written_with_what_came_of_its_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[float] = []

    @contextmanager
    def holding(free: float) -> Iterator[None]:
        held.append(free)
        yield

    build, create = true_generator.build, full_gpu.create_engine

    def engine_with_room(name: str) -> Any:
        engine: Any = create(name)
        if held[-1:] == [3.0]:
            engine.load = refuse
        return engine

    def refuse(_: Path) -> None:
        raise Failure("EngineFailed", "There is no room.", "Choose another GPU.")

    monkeypatch.setattr(full_gpu, "holding_all_but", holding)
    monkeypatch.setattr(full_gpu, "create_engine", engine_with_room)
    monkeypatch.setattr(full_gpu, "NANO", TINY)
    monkeypatch.setattr(true_generator, "build", lambda _, parent: build("tiny", parent))
    into = tmp_path / "found.json"
    arguments = f"diffusers --into {into} --work {tmp_path} --free 24,3,8 --size 64x48"
    monkeypatch.setattr("sys.argv", ["full_gpu", *arguments.split()])
    full_gpu.main()
    found = json.loads(into.read_text(encoding="utf-8"))
    assert held == [24.0, 3.0, 8.0, full_gpu._LEFT]
    assert found["24 GiB free"]["job"].startswith("made in ")
    assert found["3 GiB free"]["error"]["message"] == "There is no room."
    assert found["8 GiB free"]["plan"] == found["filled after loading"]["plan"] == "one GPU"
    assert {found["filled after loading"][when][:7] for when in ("full", "afterwards")} == {"made in"}
