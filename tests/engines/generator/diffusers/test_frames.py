"""Frames are decoded and copied in chunks, and whoever reads them waits for one chunk at a time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cosmos_batch.engines.generator.diffusers import frames
from cosmos_batch.engines.generator.diffusers.acceleration import Accelerations
from cosmos_batch.engines.generator.diffusers.checkpoint import load_checkpoint
from cosmos_batch.engines.journal import Journal

LATENTS = (1, 48, 5, 3, 4)  # batch, channels, frames, height, width


class SlowCopy:
    """Pixels that a GPU writes no earlier than somebody waits for them."""

    def __init__(self, chunk: Any) -> None:
        import torch

        self.waited = False
        self._chunk, self.memory = chunk, torch.zeros_like(chunk)

    def synchronize(self) -> None:
        self.waited = True
        self.memory.copy_(self._chunk)


def test_a_chunk_is_waited_for_when_its_first_frame_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    copies = [SlowCopy(torch.full((2, 4, 6, 3), value, dtype=torch.uint8)) for value in (1, 2)]
    monkeypatch.setattr(frames, "_copied", lambda copy: (copy.memory, copy))
    queued = iter(frames.QueuedFrames(copies))
    assert not copies[0].waited
    assert [next(queued).max(), next(queued).max()] == [1, 1]
    assert copies[0].waited and not copies[1].waited
    assert [frame.max() for frame in queued] == [2, 2]


def test_frames_can_be_read_again() -> None:
    import torch

    queued = frames.QueuedFrames([torch.rand(2, 3, 4, 6), torch.rand(1, 3, 4, 6)])
    first, again = (np.stack([*queued]) for _ in range(2))
    assert first.shape == (3, 4, 6, 3) and first.dtype == np.uint8 and np.array_equal(first, again)


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
    queued = frames.queue_decoding(omni, latents)
    assert len(queued._chunks) == (LATENTS[2] if fused else 1)
    found = np.stack([*queued])
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
