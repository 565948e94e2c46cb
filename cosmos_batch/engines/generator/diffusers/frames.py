"""From a video's latents to its frames on the host, so that they are encoded as a file while a GPU decodes the next."""

from collections.abc import Generator, Iterable, Iterator
from enum import Enum
from queue import SimpleQueue
from typing import Any

import numpy as np

from cosmos_batch.engines.job_threads import CancelCheck


class FrameQueue:
    """Frames, RGB, uint8, each [H, W, 3], which one thread makes while another iterates over them, once.

    Whoever iterates gets a RuntimeError where making a frame raised: the cause is raised where they are made.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[np.ndarray | _End] = SimpleQueue()

    def fill(self, frames: Iterable[np.ndarray], check: CancelCheck) -> None:
        """Put all frames into the queue, and call `check` before each."""
        end = _End.TOO_EARLY
        try:
            for frame in frames:
                check()
                self._queue.put(frame)
            end = _End.COMPLETE
        finally:
            if isinstance(frames, Generator):
                frames.close()  # a decoding that is abandoned keeps memory of the GPU until then
            self._queue.put(end)

    def __iter__(self) -> Iterator[np.ndarray]:
        while not isinstance(frame := self._queue.get(), _End):
            yield frame
        if frame is _End.TOO_EARLY:
            raise RuntimeError("The next frame could not be made.")


class _End(Enum):
    COMPLETE = 1
    TOO_EARLY = 2


def decoded_frames(omni: Any, latents: Any) -> Iterator[np.ndarray]:
    """Decode a video's latents, and yield its frames. `Cosmos3OmniPipeline` decodes all of them at once."""
    return frames_of(_decoded_chunks(omni, latents))


def frames_of(chunks: Iterable[Any]) -> Iterator[np.ndarray]:
    """Yield the frames, RGB, uint8, each [H, W, 3], of chunks of pixels, [T, 3, H, W] between 0 and 1.

    The work for each chunk is queued before the chunk before is waited for, so that a GPU always has some.
    """
    before: tuple[Any, Any] | None = None
    for chunk in chunks:
        queued = _queue_copy(chunk)
        if before is not None:
            yield from _copied(*before)
        before = queued
    if before is not None:
        yield from _copied(*before)


def _decoded_chunks(omni: Any, latents: Any) -> Iterator[Any]:
    """Queue the decoding of one chunk after the other, and yield each: [T, 3, H, W] between 0 and 1."""
    vae = omni.vae
    mean, inverse_deviation = (
        values.to(latents.device, vae.dtype).view(1, -1, 1, 1, 1)
        for values in (omni._vae_latents_mean, omni._vae_latents_inv_std)
    )
    latents_of_vae = latents.to(vae.dtype) / inverse_deviation + mean
    fused = hasattr(vae, "decode_chunks")  # a `ChunkDecodingVae`
    for chunk in vae.decode_chunks(latents_of_vae) if fused else [_decode(vae, latents_of_vae)]:
        yield omni.video_processor.postprocess_video(chunk.to(latents.dtype), output_type="pt")[0]


def _decode(vae: Any, latents: Any) -> Any:
    import torch

    with torch.no_grad():
        return vae.decode(latents).sample


def _queue_copy(chunk: Any) -> tuple[Any, Any]:
    """Queue the copying of a chunk to the host, as [T, H, W, 3]. Return the host's memory, and the event after which a
    GPU has written it; None for a CPU, which has already."""
    import torch

    pixels = (chunk * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    memory = _host_memory_like(pixels).copy_(pixels, non_blocking=True)
    if not pixels.is_cuda:
        return memory, None
    event: Any = torch.cuda.Event
    written = event()
    written.record()
    return memory, written


def _copied(memory: Any, written: Any) -> Iterator[np.ndarray]:
    """Wait until a GPU has written a chunk, and yield its frames."""
    if written is not None:
        written.synchronize()
    yield from memory.numpy()


def _host_memory_like(pixels: Any) -> Any:
    """Return memory of the host for as many pixels. For those of a GPU it is pinned if the host allows that: the GPU
    writes it several times as fast, and PyTorch keeps it for the next job."""
    import torch

    try:
        return torch.empty(pixels.shape, dtype=torch.uint8, pin_memory=pixels.is_cuda)
    except RuntimeError:  # the host has no more memory to pin
        return torch.empty(pixels.shape, dtype=torch.uint8)
