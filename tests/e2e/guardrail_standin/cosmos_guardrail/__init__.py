"""A stand-in for `cosmos_guardrail` 0.3.2 with the names that Diffusers imports: a checker that needs no weights.

The real one loads a block list, Qwen3Guard and a face detector from the Hub, by name; this one finds its files the same
way. How it judges is in `tests/support/guardrail_runners.py`.
"""

from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from transformers import AutoConfig

from tests.support.guardrail_runners import Checker


class CosmosSafetyChecker(Checker, torch.nn.Module):
    """The checker with the constructor that Diffusers calls."""

    dtype = torch.bfloat16  # that of its Qwen3Guard; like it, it has no `device`

    def __init__(self, checkpoint_id: str = "nvidia/Cosmos-1.0-Guardrail") -> None:
        torch.nn.Module.__init__(self)
        folder = Path(snapshot_download(checkpoint_id, allow_patterns=["blocklist/*"]))
        AutoConfig.from_pretrained("Qwen/Qwen3Guard-Gen-0.6B")
        Checker.__init__(self, (folder / "blocklist" / "custom" / "words").read_text().split())
