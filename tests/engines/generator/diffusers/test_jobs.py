"""Jobs of the Diffusers engine on the tiny checkpoint: seeds, steps, cancelling, memory, broken checkpoints."""

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.serving import ParallelPlan
from cosmos_batch.contract.result import GeneratorOutput
from cosmos_batch.engines.generator.diffusers import engine as engine_module
from cosmos_batch.engines.generator.diffusers import generation as generation_module
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.generator.outputs import GeneratedMedia
from cosmos_batch.engines.job_files import GenerationFiles
from tests.engines.generator.diffusers.conftest import FOLLOWED, PLAIN, Make
from tests.support.generations import settled
from tests.support.generator_jobs import FEW, SHORT, SMALL, Files, refused
from tests.support.mp4 import pictures

PATIENCE = 60  # seconds until a test fails that waits for what never comes
VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"


def test_same_seed_gives_same_output(make: Make) -> None:
    parameters = {"mode": "t2v", **SMALL, "num_frames": 5}
    first, again, other = (pictures(make({**parameters, "seed": seed}).video) for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_job_does_not_affect_the_next(make: Make, clip: Path) -> None:
    """Neither the scheduler of one job nor the transfer pipeline affects the next job."""
    parameters = {"mode": "t2v", "seed": 1, **SMALL, "num_frames": 5}
    first = pictures(make(parameters).video)
    make({"mode": "transfer", "controls": {"edge": {}}, "flow_shift": 3.0, **SMALL, "num_frames": 5}, clip)
    assert np.array_equal(first, pictures(make(parameters).video))
    assert not np.array_equal(first, pictures(make({**parameters, "flow_shift": 2.0}).video))


def test_scheduler_has_the_jobs_flow_shift(make: Make, engine: DiffusersEngine) -> None:
    make({"mode": "t2v", "flow_shift": 5.0, **SMALL, "num_frames": 5})
    assert engine._checkpoint is not None
    config = engine._checkpoint.omni.scheduler.config
    assert config.flow_shift == 5.0 and not config.use_karras_sigmas and config.use_flow_sigmas


def test_progress_is_reported_for_each_step(make: Make) -> None:
    steps: list[tuple[int, int]] = []
    make({"mode": "t2v", **SMALL, "num_frames": 5, "steps": 3}, progress=lambda *step: steps.append(step))
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_job_is_written_while_the_next_one_is_generated(
    engine: DiffusersEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a video are encoded on the CPU for seconds, in which the GPU is not to wait."""
    written, write = threading.Event(), engine_module.write_files

    def write_and_tell(*arguments: Any) -> Any:
        files = write(*arguments)
        written.set()
        return files

    def wait_for_the_first(*_: int) -> None:
        assert written.wait(PATIENCE), "the first job is written only when the second is generated"

    monkeypatch.setattr(engine_module, "write_files", write_and_tell)
    generation = settled({**SHORT, **PLAIN}, None, guardrails=False)

    def start(name: str, progress: Callable[[int, int], None]) -> Coroutine[Any, Any, GeneratorOutput]:
        (tmp_path / name).mkdir()
        return engine.generate(generation, GenerationFiles(None, {}), tmp_path / name, progress)

    async def both() -> list[GeneratorOutput]:
        return await asyncio.gather(start("first", lambda *_: None), start("second", wait_for_the_first))

    assert all(output.files for output in asyncio.run(both()))


def test_a_frame_is_written_before_the_next_is_decoded(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding a large video takes as long as decoding it."""
    taken, decode, write = threading.Event(), generation_module.decoded_frames, engine_module.write_files

    def decode_two(*arguments: Any) -> Iterator[np.ndarray]:
        first, second, *_ = decode(*arguments)
        yield first
        assert taken.wait(PATIENCE), "the first frame is written only when all are decoded"
        yield second

    def write_and_tell(media: GeneratedMedia, *others: Any) -> Any:
        def told() -> Iterator[np.ndarray]:
            for frame in media.frames:
                taken.set()
                yield frame

        return write(replace(media, frames=told()), *others)

    monkeypatch.setattr(generation_module, "decoded_frames", decode_two)
    monkeypatch.setattr(engine_module, "write_files", write_and_tell)
    assert len(pictures(make(PLAIN).video)) == 2


def test_a_video_that_cannot_be_decoded_to_its_end_fails_its_job_alone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode_one(*_: Any) -> Iterator[np.ndarray]:
        yield np.zeros((48, 64, 3), np.uint8)
        raise RuntimeError("no kernel image is available")

    with monkeypatch.context() as patch:
        patch.setattr(generation_module, "decoded_frames", decode_one)
        with pytest.raises(Failure, match="no kernel image is available") as failure:
            make(PLAIN)
    assert failure.value.error.code == "EngineFailed" and not [*(tmp_path / "out").iterdir()]
    assert make(PLAIN).video


def test_nothing_of_a_decoding_that_failed_is_kept(
    engine: DiffusersEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference cycle would keep a GPU's memory from the next job until Python happens to find it."""
    import torch

    class Activations:
        """Stands for what a VAE computes in one call."""

    kept: list[weakref.ref[Activations]] = []

    def decode_one(*_: Any) -> Iterator[np.ndarray]:
        activations = Activations()
        kept.append(weakref.ref(activations))
        yield np.zeros((48, 64, 3), np.uint8)
        raise torch.OutOfMemoryError("CUDA out of memory.")

    async def fail() -> None:
        generation = settled({**SHORT, **PLAIN}, None, guardrails=False)
        try:
            await engine.generate(generation, GenerationFiles(None, {}), tmp_path)
        except Failure as failure:
            assert "Lower resolution or numFrames" in failure.error.remedy
        began = time.monotonic()
        while kept[0]() is not None:  # the thread lets go of it after the job has failed
            assert time.monotonic() < began + PATIENCE, "it is kept"
            await asyncio.sleep(0.05)

    monkeypatch.setattr(generation_module, "decoded_frames", decode_one)
    gc.disable()
    try:
        asyncio.run(fail())
    finally:
        gc.enable()


def test_no_number_is_read_back_in_a_step(make: Make, engine: DiffusersEngine) -> None:
    make(PLAIN)
    from cosmos_batch.engines.generator.diffusers.asynchronous import AsynchronousUniPC, mask_velocities

    assert engine._checkpoint is not None
    omni = engine._checkpoint.omni
    assert type(omni.scheduler) is AsynchronousUniPC and omni._mask_velocity_predictions is mask_velocities


def test_a_jobs_phases_are_timed(make: Make) -> None:
    timings = make(PLAIN).output.timings
    assert timings.keys() == {"prepare", "firstStep", "generate", "write"}
    assert all(0 <= seconds < PATIENCE for seconds in timings.values())


def test_nobody_misses_the_failure_of_a_cancelled_generation(engine: DiffusersEngine, tmp_path: Path) -> None:
    """Asyncio logs an exception that no one asks a future for."""
    missed: list[dict[str, Any]] = []

    async def cancel() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: missed.append(context))
        generation = settled({**SHORT, **PLAIN}, None, guardrails=False)
        job = asyncio.ensure_future(
            engine.generate(generation, GenerationFiles(None, {}), tmp_path, lambda *_: loop.call_soon_threadsafe(stop))
        )
        stop = job.cancel
        with pytest.raises(asyncio.CancelledError):
            await job
        await loop.run_in_executor(engine._generating, lambda: None)
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(cancel())
    assert not missed


@pytest.mark.parametrize("parameters", [{"mode": "t2v"}, {"mode": "transfer", "controls": {"edge": {}}}])
def test_cancelling_stops_between_steps(
    engine: DiffusersEngine, clip: Path, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    async def cancel() -> list[int]:
        steps: list[int] = []
        loop = asyncio.get_running_loop()

        def stop(done: int, _total: int) -> None:
            steps.append(done)
            if done == 1:
                loop.call_soon_threadsafe(job.cancel)
                # Wait here for the cancellation, as a longer step would.
                asyncio.run_coroutine_threadsafe(_gone(job), loop).result()

        medium = clip if parameters["mode"] == "transfer" else None
        generation = settled({**SHORT, **parameters, **FEW, "steps": 50}, "video" if medium else None, guardrails=False)
        job = asyncio.ensure_future(engine.generate(generation, GenerationFiles(medium, {}), tmp_path, stop))
        with pytest.raises(asyncio.CancelledError):
            await job
        await loop.run_in_executor(engine._generating, lambda: None)
        return steps

    assert asyncio.run(cancel()) == [0, 1]
    assert list(tmp_path.iterdir()) == []


async def _gone(job: "asyncio.Future[Any]") -> None:
    while not job.done():
        await asyncio.sleep(0)


def test_image_is_guided_only_within_its_guidance_interval(
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


def test_long_prompt_is_not_truncated(make: Make) -> None:
    parameters = {"mode": "t2i", **SMALL}
    result = make(parameters, prompt="A cube. " * 600)
    assert (result.output.generation.max_sequence_length or 0) > 1200
    assert make(parameters).output.generation.max_sequence_length == 512
    error = refused(make, {**parameters, "max_sequence_length": 600}, prompt="A cube. " * 600)
    assert error.code == "InvalidInput" and "would be cut" in error.message


@pytest.mark.parametrize("whose", ["the GPU's", "the host's"])
def test_out_of_memory_error_has_a_remedy(
    make: Make, engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """Only a lack of host memory is retryable: on a GPU the same job, which runs alone, would need as much again."""
    import torch

    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory") if whose == "the GPU's" else MemoryError("no memory")

    assert engine._checkpoint is not None
    monkeypatch.setattr(engine._checkpoint.omni.vae, "decode", full)
    error = refused(make, {"mode": "t2i", **SMALL})
    assert error.code == "EngineFailed" and error.retryable == (whose == "the host's")
    assert "numFrames" in error.remedy


@pytest.mark.parametrize("parameters", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
def test_offloaded_layers_give_the_same_output(
    make: Make, checkpoint: Path, clip: Path, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    medium = clip if parameters is FOLLOWED else None
    expected = pictures(make({**parameters, "seed": 3}, medium).video)
    engine = DiffusersEngine()
    engine.guardrails, engine.plan = False, ParallelPlan(offload=True)
    engine.load(checkpoint)
    try:
        assert any("its layers offloaded" in line for line in engine.startup_logs)
        transformer = engine._loaded().omni.transformer
        assert all(hasattr(layer, "_diffusers_hook") for layer in transformer.layers)
        generation = settled({**SHORT, **parameters, "seed": 3}, "video" if medium else None, guardrails=False)
        result = asyncio.run(engine.generate(generation, GenerationFiles(medium, {}), tmp_path))
    finally:
        engine.close()
    assert np.array_equal(pictures(Files(result, tmp_path).video), expected)


def test_broken_checkpoint_is_refused(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(Failure) as empty:
        DiffusersEngine().load(tmp_path)
    assert empty.value.error.code == "ModelUnavailable" and "model_index.json" in empty.value.error.message
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "model_index.json").write_bytes((checkpoint / "model_index.json").read_bytes())
    with pytest.raises(Failure) as damaged:
        DiffusersEngine().load(broken)
    assert damaged.value.error.code == "ModelUnavailable" and "broken" in damaged.value.error.message


def test_torch_is_imported_with_expandable_segments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This is NVIDIA's first remedy for out-of-memory errors. torch reads the variable once, at its import."""
    for name in (VARIABLE, "PYTORCH_ALLOC_CONF"):  # another engine in this process may have set it
        monkeypatch.delenv(name, raising=False)
    seen: list[str | None] = []
    monkeypatch.setattr(engine_module, "import_libraries", lambda _: seen.append(os.environ.get(VARIABLE)))
    engine = DiffusersEngine()
    engine.guardrails = False
    with pytest.raises(Failure, match=r"has no model_index.json"):
        engine.load(tmp_path)
    assert seen == ["expandable_segments:True"]
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:512")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Failure):
        engine.load(tmp_path)
    assert seen[1] is None, "whoever sets an allocator keeps it"
