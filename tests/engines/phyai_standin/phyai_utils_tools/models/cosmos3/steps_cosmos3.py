"""A stand-in; see `phyai/engine.py`."""

from typing import Any

import torch


def find_closest_target_size(_height: int, _width: int, tier: str) -> tuple[int, int]:
    return {"256": (320, 256)}[tier]


def cosmos3_action_json_caption(
    prompt: str, *, view_point: str, num_frames: int, fps: float, height: int, width: int
) -> str:
    return f"{prompt} {view_point} {num_frames} {fps} {height} {width}"


class Cosmos3ActionPadStep:
    def __init__(self, *, action_chunk_size: int, raw_action_dim: int, mode: str) -> None:
        self.chunk, self.width, self.mode = action_chunk_size, raw_action_dim, mode

    def __call__(self, transition: dict[str, Any]) -> dict[str, Any]:
        rows = transition["cond_action"]
        if self.mode != "forward_dynamics":
            return {"cond_action": None}
        assert rows.shape == (self.chunk, self.width)
        padded = torch.zeros(1, self.chunk, 64)
        padded[0, :, : self.width] = rows
        return {"cond_action": padded}
