"""Two processes of a real vLLM server share a tiny model on the CPU, and answer as one process does.

They are spawned, as those of a server on GPUs are: it has used CUDA when it starts them.
"""

import asyncio
import os
from pathlib import Path

import pytest

from cosmos_batch.demo.checkpoint import build_random_checkpoint
from cosmos_batch.engines.reasoner.vllm.command import VllmPlan
from cosmos_batch.engines.reasoner.vllm.engine import VllmEngine
from tests.engines.conftest import make_job, place
from tests.support import media_files
from tests.support.real_vllm import needs_vllm

pytestmark = [needs_vllm, pytest.mark.slow, pytest.mark.timeout(600)]

CORES = sorted(os.sched_getaffinity(0))[:2]
SHARED = ["--tensor-parallel-size", "2", "--mm-encoder-tp-mode", "data", "--async-scheduling"]
"""Options that a plan for two GPUs adds to the command line, and that vLLM has on a CPU too."""

APART = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "|".join(str(core) for core in CORES),
}
"""The environment of a server with processes of its own, as on a GPU; each has a core."""


@pytest.mark.skipif(len(CORES) < 2, reason="each process needs a core")
def test_two_processes_answer_as_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    checkpoint = build_random_checkpoint(tmp_path / "models")
    clip = media_files.video(tmp_path / "clip.mp4", frames=12)
    alone = answer_of(checkpoint, clip, tmp_path / "alone")
    options, environment = VllmPlan.command, VllmPlan.environment
    monkeypatch.setattr(VllmPlan, "command", lambda *arguments: [*options(*arguments), *SHARED])
    spawning = {"PYTHONPATH": str(without_forks(tmp_path / "spawning"))}
    monkeypatch.setattr(VllmPlan, "environment", lambda *arguments: {**environment(*arguments), **APART, **spawning})
    assert answer_of(checkpoint, clip, tmp_path / "shared", processes=2) == alone != ""


def without_forks(folder: Path) -> Path:
    """Write an empty module in the place of `scripts/vllm_cpu/vllm_fork.py`, with which our tests have vLLM forked."""
    folder.mkdir()
    (folder / "vllm_fork.py").touch()
    return folder


def answer_of(checkpoint: Path, clip: Path, folder: Path, processes: int = 1) -> str:
    """Return the greedy answer about a clip of a server with so many processes."""
    engine = VllmEngine()
    engine.load(checkpoint)
    try:
        assert any(f"world_size={processes} " in line for line in engine.startup_logs)
        job = make_job(clip.name, "What happens?", maxTokens=8, temperature=0)
        place(clip, job, folder)
        return asyncio.run(engine.run(job, folder)).text
    finally:
        engine.close()
