"""A video is decoded in chunks, and its first frames can be encoded while the last ones are decoded."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cosmos_batch.engines.generator.diffusers import frames
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.generator.diffusers.checkpoint import load_checkpoint
from cosmos_batch.engines.journal import Journal

PATIENCE = 60  # seconds until a test fails that waits for what never comes
LATENTS = (1, 48, 5, 3, 4)  # batch, channels, frames, height, width


def test_a_chunk_is_queued_before_the_one_before_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    told: list[str] = []

    def written(number: int) -> Any:
        told.append(f"queued {number}")
        waits = SimpleNamespace(synchronize=lambda: told.append(f"waited for {number}"))
        return torch.full((2, 4, 6, 3), number, dtype=torch.uint8), waits

    monkeypatch.setattr(frames, "_queue_copy", written)
    assert [frame.max() for frame in frames.frames_of([1, 2, 3])] == [1, 1, 2, 2, 3, 3]
    assert told == ["queued 1", "queued 2", "waited for 1", "queued 3", "waited for 2", "waited for 3"]


def test_no_chunks_are_no_frames() -> None:
    assert [*frames.frames_of([])] == []


def test_frames_are_read_while_others_are_made() -> None:
    queue, taken = frames.FrameQueue(), threading.Event()

    def made() -> Iterator[np.ndarray]:
        yield np.zeros(1)
        assert taken.wait(PATIENCE), "the first frame can be read only when all are made"
        yield np.ones(1)

    with ThreadPoolExecutor(1) as pool:
        filling = pool.submit(queue.fill, made(), lambda: None)
        reading = iter(queue)
        assert next(reading) == 0
        taken.set()
        assert [*reading] == [1]
        filling.result()


def test_whoever_reads_learns_that_a_frame_could_not_be_made() -> None:
    queue = frames.FrameQueue()

    def made() -> Iterator[np.ndarray]:
        yield np.zeros(1)
        raise ValueError("the cause")

    with pytest.raises(ValueError, match="the cause"):
        queue.fill(made(), lambda: None)
    reading = iter(queue)
    assert next(reading) == 0
    with pytest.raises(RuntimeError, match="could not be made"):
        next(reading)


def test_no_frame_is_made_after_the_check_raised() -> None:
    told: list[str] = []

    def made() -> Iterator[np.ndarray]:
        try:
            for number in range(3):
                told.append(f"made {number}")
                yield np.zeros(1)
        finally:
            told.append("closed")

    def check() -> None:
        if len(told) == 2:
            raise ValueError("cancelled")

    with pytest.raises(ValueError, match="cancelled"):
        frames.FrameQueue().fill(made(), check)
    assert told == ["made 0", "made 1", "closed"]


@pytest.mark.parametrize("fused", [False, True])
def test_pixels_are_those_that_the_pipeline_decodes(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch, fused: bool
) -> None:
    import torch

    from cosmos_batch.engines.generator.diffusers import decoder

    monkeypatch.setattr(decoder, "PIXELS_AT_ONCE", 1)
    omni = load_checkpoint(checkpoint, None, False, Accelerations(), Journal()).omni
    latents = torch.randn(LATENTS, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        scaled = latents / omni._vae_latents_inv_std.view(1, -1, 1, 1, 1) + omni._vae_latents_mean.view(1, -1, 1, 1, 1)
        expected = omni.video_processor.postprocess_video(omni.vae.decode(scaled).sample, output_type="np")[0]
    if fused:
        decoder.fuse_decoder(omni.vae)
    chunks = [*frames._decoded_chunks(omni, latents)]
    assert len(chunks) == (LATENTS[2] if fused else 1)
    assert not any(chunk.requires_grad for chunk in chunks), "activations are kept for gradients"
    found = np.stack([*frames.decoded_frames(omni, latents)])
    assert found.shape == expected.shape and found.std() > 1
    assert np.abs(found - 255 * expected).max() <= 0.51  # of 255: they are rounded


@pytest.mark.parametrize("pins", [True, False])
def test_frames_of_a_gpu_are_copied_into_pinned_memory_if_there_is_any(
    monkeypatch: pytest.MonkeyPatch, pins: bool
) -> None:
    import torch

    asked: list[bool] = []
    empty = torch.empty

    def recorded(shape: Any, *, dtype: Any, pin_memory: bool = False) -> Any:
        asked.append(pin_memory)
        if pin_memory and not pins:
            raise RuntimeError("CUDA error: out of memory")
        return empty(shape, dtype=dtype)

    monkeypatch.setattr(torch, "empty", recorded)
    memory = frames._host_memory_like(SimpleNamespace(shape=(2, 4, 6, 3), is_cuda=True))
    assert memory.shape == (2, 4, 6, 3) and memory.dtype == torch.uint8
    assert asked == ([True] if pins else [True, False])
