"""The pauses between jobs, and for how long the GPU has nothing to do in them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generator.jobs import TINY
from benchmarks.generator.pause import LOOK_SECONDS, pauses_between_jobs


class _OneAtATime:
    """An engine that takes a moment for each step, and makes one job after the other."""

    def __init__(self) -> None:
        self._gpu = asyncio.Lock()
        self._done: dict[str, int] = {}

    def steps(self, job: str) -> tuple[int, int]:
        return self._done.get(job, 0), TINY.steps

    async def run(self, job: Any, folder: Path) -> None:
        async with self._gpu:
            for step in range(TINY.steps):
                await asyncio.sleep(10 * LOOK_SECONDS)
                self._done[job.job_id] = step + 1


@pytest.fixture
def half_busy_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in the place of `nvidia-smi` that reports a GPU which is busy for half of the time."""
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nwhile :; do echo 50, 300, 1900, 1000; sleep 0.01; done\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


@pytest.mark.usefixtures("half_busy_gpu")
def test_the_gpu_is_idle_for_half_of_what_each_job_takes(tmp_path: Path) -> None:
    found = pauses_between_jobs(_OneAtATime(), TINY, "64x48", 3, tmp_path)
    of_a_job = found["secondsOfAStep"][1] * (TINY.steps - 1) + found["secondsBetweenLastAndFirstStep"][0]
    assert found["gpuIdleSecondsOfAJob"] == pytest.approx(of_a_job / 2, rel=0.5)


def test_without_a_gpu_its_idle_seconds_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pauses_between_jobs(_OneAtATime(), TINY, "64x48", 2, tmp_path)["gpuIdleSecondsOfAJob"] is None
