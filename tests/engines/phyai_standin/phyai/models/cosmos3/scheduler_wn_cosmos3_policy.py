"""Part of the stand-in for PhyAI, which `phyai/engine.py` describes."""

from typing import Any

import torch

from phyai.engine import Runner, denoised, encode


class Cosmos3PolicyWNScheduler:
    def __init__(self, transformer: str, *, vae: str, device: str, flow_shift: float, use_karras_sigmas: bool) -> None:
        assert (transformer, vae) == ("weights", "vae")  # shared with the plugin for videos
        assert device == "cpu" and flow_shift > 0 and not use_karras_sigmas
        self.runner: Runner | None = None

    def setup(self) -> None:
        self.runner = Runner()

    def step(self, request: Any, *, decode_video: bool) -> dict[str, torch.Tensor]:
        assert decode_video and self.runner is not None
        latents = encode(request.cond_video_pixels)
        assert latents.shape[2:] == request.video_shape
        shape = (1, request.action_chunk, request.action_dim)
        action = torch.full(shape, 0.5) if request.cond_action is None else request.cond_action
        assert action.shape == shape
        return {"action": action, "pixels": denoised(self.runner, request, latents[0, :3, 0])}
