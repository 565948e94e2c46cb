"""What Diffusers imports of `cosmos_guardrail` 0.3.2, by its names: a checker that needs no weights.

The real one loads a block list, Qwen3Guard and a face detector from the Hub, by name; this one finds its files the same
way. It goes by words of the prompt: those of the block list block it, and `unseemly` blocks what is made of it.
"""

from pathlib import Path

import numpy as np
import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig

GREY = 90  # a corner of every frame, where the real one blurs faces
CORNER = 16  # pixels


class CosmosSafetyChecker(torch.nn.Module):
    """As Diffusers makes and asks it."""

    dtype = torch.bfloat16  # that of its Qwen3Guard; like it, it has no `device`

    def __init__(self, checkpoint_id: str = "nvidia/Cosmos-1.0-Guardrail") -> None:
        super().__init__()
        folder = Path(snapshot_download(checkpoint_id, allow_patterns=["blocklist/*"]))
        self._words = (folder / "blocklist" / "custom" / "words").read_text().split()
        AutoConfig.from_pretrained("Qwen/Qwen3Guard-Gen-0.6B")
        self._unseemly = False

    def check_text_safety(self, prompt: str) -> bool:
        self._unseemly = "unseemly" in prompt
        return not any(word in prompt for word in self._words)

    def check_video_safety(self, frames: np.ndarray) -> np.ndarray | None:
        if self._unseemly:
            return None
        frames = frames.copy()
        frames[:, :CORNER, :CORNER] = GREY
        return frames
