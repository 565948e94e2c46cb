"""Of the video that a job begins with, no more is encoded than is given.

Diffusers encodes a video of full length, of zeros or of the last given frame where nothing is given, and then has noise
take the place of what was not given. Its VAE looks at no later frame, so the first latents are the same without.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cosmos_batch.contract.generation.schema import Generation


def given_latents(asked: Generation) -> int | None:
    """How many latent frames are given, from the first; None where all are, and in transfer, which encodes apart."""
    if asked.transfer or asked.mode == "inverse_dynamics":
        return None
    if asked.conditioning:
        return max(asked.conditioning.frames) + 1
    return 0 if asked.mode in ("t2i", "t2v") else 1


@contextmanager
def encode_given(omni: Any, given: int) -> Iterator[None]:
    """While it lasts, a `Cosmos3OmniPipeline` encodes so many latent frames; the others are zeros."""
    encode = omni._encode_video

    def encode_first(video: Any) -> Any:
        """[B, 3, T, H, W] to [B, z, 1 + (T - 1) // 4, H // 16, W // 16]."""
        batch, _, frames, height, width = video.shape
        vae = omni.vae.config
        across, along = vae.scale_factor_spatial, vae.scale_factor_temporal
        shape = (batch, vae.z_dim, 1 + (frames - 1) // along, height // across, width // across)
        latents = video.new_zeros(shape)
        if given:
            latents[:, :, :given] = encode(video[:, :, : 1 + along * (given - 1)])
        return latents

    omni._encode_video = encode_first
    try:
        yield
    finally:
        del omni._encode_video
