"""What Diffusers imports of `cosmos_guardrail` 0.3.2, by its names: a checker that needs no models.

The real one loads a block list, Qwen3Guard and a face detector from the Hub. This one goes by words of the prompt:
`forbidden` blocks it, and `unseemly` blocks what is made of it.
"""

import numpy as np
import torch

GREY = 90  # a corner of every frame, where the real one blurs faces
CORNER = 16  # pixels


class CosmosSafetyChecker(torch.nn.Module):
    """As Diffusers makes and asks it."""

    dtype = torch.bfloat16  # that of its Qwen3Guard; like it, it has no `device`

    def __init__(self, checkpoint_id: str = "nvidia/Cosmos-1.0-Guardrail") -> None:
        super().__init__()
        self._unseemly = False

    def check_text_safety(self, prompt: str) -> bool:
        self._unseemly = "unseemly" in prompt
        return "forbidden" not in prompt

    def check_video_safety(self, frames: np.ndarray) -> np.ndarray | None:
        if self._unseemly:
            return None
        frames = frames.copy()
        frames[:, :CORNER, :CORNER] = GREY
        return frames
