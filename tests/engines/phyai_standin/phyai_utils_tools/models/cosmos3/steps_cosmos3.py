"""Part of the stand-in for PhyAI, which `phyai/engine.py` describes."""

from typing import Any

import torch


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
