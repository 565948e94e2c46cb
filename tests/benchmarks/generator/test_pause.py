"""The pauses between jobs, and for how long the GPU has nothing to do in them."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generator.jobs import TINY
from benchmarks.generator.pause import LOOK_SECONDS, pauses_between_jobs

WORKLOAD = replace(TINY, steps=5)


class _OneAtATime:
    """An engine that takes a moment for each step, and makes one job after the other, once a GPU's samples come."""

    def __init__(self, sampling: Path | None = None) -> None:
        self._sampling = sampling
        self._gpu = asyncio.Lock()
        self._done: dict[str, int] = {}

    def steps(self, job: str) -> tuple[int, int]:
        return self._done.get(job, 0), WORKLOAD.steps

    async def run(self, job: Any, folder: Path) -> None:
        async with self._gpu:
            while self._sampling is not None and not self._sampling.exists():
                await asyncio.sleep(LOOK_SECONDS)
            for step in range(WORKLOAD.steps):
                await asyncio.sleep(10 * LOOK_SECONDS)
                self._done[job.job_id] = step + 1
            await asyncio.sleep(10 * LOOK_SECONDS)  # it decodes


@pytest.fixture
def half_busy_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program in the place of `nvidia-smi` that reports a GPU which is busy for half of the time. Return the file
    that it writes once it has begun.
    """
    program, begun = tmp_path / "bin" / "nvidia-smi", tmp_path / "begun"
    program.parent.mkdir()
    samples = f"while :; do echo 50, 300, 1900, 1000; : >{begun}; sleep 0.01; done"
    program.write_text(f"#!/bin/sh\n{samples}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return begun


def test_the_gpu_is_idle_for_half_of_what_each_job_takes(tmp_path: Path, half_busy_gpu: Path) -> None:
    found = pauses_between_jobs(_OneAtATime(half_busy_gpu), WORKLOAD, "64x48", 3, tmp_path)
    of_a_job = found["secondsOfAStep"][1] * (WORKLOAD.steps - 1) + found["secondsBetweenLastAndFirstStep"][0]
    assert found["gpuIdleSecondsOfAJob"] == pytest.approx(of_a_job / 2, rel=0.5)


def test_without_a_gpu_its_idle_seconds_are_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert pauses_between_jobs(_OneAtATime(), WORKLOAD, "64x48", 2, tmp_path)["gpuIdleSecondsOfAJob"] is None
