"""A stand-in for PhyAI's requests, with the fields that our driver sets."""

from dataclasses import dataclass
from typing import Any


def pixel_to_latent_shape(num_frames: int, height: int, width: int) -> tuple[int, int, int]:
    return (num_frames - 1) // 4 + 1, height // 16, width // 16


@dataclass
class Cosmos3T2VRequest:
    text_ids: Any
    text_mask: Any
    neg_text_ids: Any
    neg_text_mask: Any
    video_shape: tuple[int, int, int]
    fps: float
    num_inference_steps: int
    guidance_scale: float
    seed: int
    cond_frame_indexes: tuple[int, ...]
    sound_frames: int | None
    cond_latents: Any = None


@dataclass
class Cosmos3ActionRequest:
    text_ids: Any
    text_mask: Any
    neg_text_ids: Any
    neg_text_mask: Any
    video_shape: tuple[int, int, int]
    mode: str
    domain_id: int
    action_chunk: int
    raw_action_dim: int
    cond_video_pixels: Any
    cond_action: Any
    fps: float
    num_inference_steps: int
    guidance_scale: float
    seed: int
    action_dim: int = 64
