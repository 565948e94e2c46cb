"""From a video's pixels on a device to frames on the host, in chunks.

A GPU's work is queued, so the first frames can be encoded as a video's file while the GPU decodes the last ones.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np


class QueuedFrames:
    """The frames of a video, RGB, uint8, each [H, W, 3], which a GPU may still be computing.

    Whoever iterates waits for a chunk of frames at a time. Pixels that a GPU failed to compute raise its error here.
    """

    def __init__(self, chunks: Iterable[Any]) -> None:
        """Queue the conversion of chunks of [T, 3, H, W] between 0 and 1, and their copying to the host."""
        self._chunks = [_copied(chunk) for chunk in chunks]

    def __iter__(self) -> Iterator[np.ndarray]:
        for pixels, copied in self._chunks:
            if copied is not None:
                copied.synchronize()
            yield from pixels.numpy()


def queue_decoding(omni: Any, latents: Any) -> QueuedFrames:
    """Queue the decoding of a video's latents, which `Cosmos3OmniPipeline` does for all frames at once."""
    import torch

    with torch.no_grad():
        return QueuedFrames(_decoded_chunks(omni, latents))


def _decoded_chunks(omni: Any, latents: Any) -> Iterator[Any]:
    """Yield chunks of a video's pixels, [T, 3, H, W] between 0 and 1."""
    vae = omni.vae
    mean, inverse_deviation = (
        values.to(latents.device, vae.dtype).view(1, -1, 1, 1, 1)
        for values in (omni._vae_latents_mean, omni._vae_latents_inv_std)
    )
    latents_of_vae = latents.to(vae.dtype) / inverse_deviation + mean
    fused = hasattr(vae, "decode_chunks")  # a `ChunkDecodingVae`
    for chunk in vae.decode_chunks(latents_of_vae) if fused else [vae.decode(latents_of_vae).sample]:
        yield omni.video_processor.postprocess_video(chunk.to(latents.dtype), output_type="pt")[0]


def _copied(chunk: Any) -> tuple[Any, Any]:
    """Return memory of the host with a chunk's frames, [T, H, W, 3], and the event after which a GPU has written it;
    None for a CPU."""
    import torch

    pixels = (chunk * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    memory = _host_memory_like(pixels).copy_(pixels, non_blocking=True)
    if not pixels.is_cuda:
        return memory, None
    event: Any = torch.cuda.Event
    copied = event()
    copied.record()
    return memory, copied


def _host_memory_like(pixels: Any) -> Any:
    """Return memory of the host for as many pixels. For those of a GPU it is pinned if the host allows that: the GPU
    writes it several times as fast, and PyTorch keeps it for the next job."""
    import torch

    try:
        return torch.empty(pixels.shape, dtype=torch.uint8, pin_memory=pixels.is_cuda)
    except RuntimeError:  # the host has no more memory to pin
        return torch.empty(pixels.shape, dtype=torch.uint8)
