"""Jobs of Diffusers on the tiny checkpoint: what they share, how they end, what is refused."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.job_files import GenerationFiles
from tests.engines.generator.diffusers.conftest import FOLLOWED, PLAIN, Make
from tests.support.generations import settled
from tests.support.generator_jobs import FEW, SHORT, SMALL, Files, frames, refused


def test_the_seed_decides(make: Make) -> None:
    said = {"mode": "t2v", **SMALL, "num_frames": 5}
    first, again, other = (frames(make({**said, "seed": seed}).video) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_jobs_leave_nothing_behind(make: Make, clip: Path) -> None:
    """The scheduler of one job, and the pipeline of transfer, say nothing about the next."""
    said = {"mode": "t2v", "seed": 1, **SMALL, "num_frames": 5}
    first = frames(make(said).video)
    make({"mode": "transfer", "controls": {"edge": {}}, "flow_shift": 3.0, **SMALL, "num_frames": 5}, clip)
    assert np.array_equal(first, frames(make(said).video))
    assert not np.array_equal(first, frames(make({**said, "flow_shift": 2.0}).video))


def test_the_scheduler_is_the_one_of_the_job(make: Make, engine: DiffusersEngine) -> None:
    make({"mode": "t2v", "flow_shift": 5.0, **SMALL, "num_frames": 5})
    assert engine._checkpoint is not None
    config = engine._checkpoint.omni.scheduler.config
    assert config.flow_shift == 5.0 and not config.use_karras_sigmas and config.use_flow_sigmas


def test_progress_is_told_step_by_step(make: Make) -> None:
    told: list[tuple[int, int]] = []
    make({"mode": "t2v", **SMALL, "num_frames": 5, "steps": 3}, progress=lambda *step: told.append(step))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("said", [{"mode": "t2v"}, {"mode": "transfer", "controls": {"edge": {}}}])
def test_cancelling_stops_between_steps(
    engine: DiffusersEngine, clip: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    async def cancel() -> list[int]:
        told: list[int] = []
        loop = asyncio.get_running_loop()

        def stop(done: int, _total: int) -> None:
            told.append(done)
            if done == 1:
                loop.call_soon_threadsafe(job.cancel)
                # The step waits for its cancellation, as a longer one would.
                asyncio.run_coroutine_threadsafe(_gone(job), loop).result()

        medium = clip if said["mode"] == "transfer" else None
        asked = settled({**SHORT, **said, **FEW, "steps": 50}, "video" if medium else None, guardrails=False)
        job = asyncio.ensure_future(engine.generate(asked, GenerationFiles(medium, {}), tmp_path, stop))
        with pytest.raises(asyncio.CancelledError):
            await job
        await loop.run_in_executor(engine._generating, lambda: None)
        return told

    assert asyncio.run(cancel()) == [0, 1]
    assert list(tmp_path.iterdir()) == []


async def _gone(job: "asyncio.Future[Any]") -> None:
    while not job.done():
        await asyncio.sleep(0)


def test_an_image_is_guided_in_its_interval_alone(
    make: Make, engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert engine._checkpoint is not None
    seen: dict[str, list[float]] = {"cond": [], "uncond": []}
    transformer = engine._checkpoint.omni.transformer
    context = transformer.cache_context

    def noted(name: str, **options: Any) -> Any:
        seen[name].append(options["sigma"] * 1000)
        return context(name, **options)

    monkeypatch.setattr(transformer, "cache_context", noted)
    make({"mode": "t2i", **SMALL, "steps": 6})
    assert seen["uncond"] == [timestep for timestep in seen["cond"] if timestep >= 400]
    assert 0 < len(seen["uncond"]) < len(seen["cond"]) == 6


def test_no_prompt_is_cut(make: Make) -> None:
    said = {"mode": "t2i", **SMALL}
    made = make(said, prompt="A cube. " * 600)
    assert (made.made.generation.max_sequence_length or 0) > 1200
    assert make(said).made.generation.max_sequence_length == 512
    error = refused(make, {**said, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


@pytest.mark.parametrize("whose", ["the GPU's", "the host's"])
def test_memory_that_runs_out_has_a_remedy(
    make: Make, engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """A GPU has one job at a time, which would need as much again; the host's memory is others' too."""
    import torch

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory") if whose == "the GPU's" else MemoryError("no memory")

    assert engine._checkpoint is not None
    monkeypatch.setattr(engine._checkpoint.omni.vae, "decode", full)
    error = refused(make, {"mode": "t2i", **SMALL})
    assert error.code == "EngineFailed" and error.retryable == (whose == "the host's")
    assert "numFrames" in error.remedy


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
def test_layers_that_wait_in_the_hosts_memory_make_the_same(
    make: Make, checkpoint: Path, clip: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    medium = clip if said is FOLLOWED else None
    expected = frames(make({**said, "seed": 3}, medium).video)
    engine = DiffusersEngine()
    engine.guardrails, engine.plan = False, ParallelPlan(offload=True)
    engine.load(checkpoint)
    try:
        assert any("its layers offloaded" in line for line in engine.startup_logs)
        transformer = engine._loaded().omni.transformer
        assert all(hasattr(layer, "_diffusers_hook") for layer in transformer.layers)
        asked = settled({**SHORT, **said, "seed": 3}, "video" if medium else None, guardrails=False)
        made = asyncio.run(engine.generate(asked, GenerationFiles(medium, {}), tmp_path))
    finally:
        engine.close()
    assert np.array_equal(frames(Files(made, tmp_path).video), expected)


def test_a_broken_checkpoint_is_named(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(Failure) as empty:
        DiffusersEngine().load(tmp_path)
    assert empty.value.error.code == "ModelUnavailable" and "model_index.json" in empty.value.error.message
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model_index.json").write_bytes((checkpoint / "model_index.json").read_bytes())
    with pytest.raises(Failure) as damaged:
        DiffusersEngine().load(broken)
    assert damaged.value.error.code == "ModelUnavailable" and "broken" in damaged.value.error.message
