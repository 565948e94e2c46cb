"""A stand-in for PhyAI on machines without a GPU: the part that our driver uses, with PhyAI's names.

Every process must take part in each step. The video is a band that moves over the last input frame. Of a prompt only
its number of tokens matters: 15 kill the last process. The variable `COSMOS_STANDIN_REFUSES` makes the load fail, and
`COSMOS_STANDIN_STEP_SECONDS` is how long a step takes.
"""

import os
import signal
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

DEADLY = 15  # tokens, of which two are behind each prompt


@dataclass
class EngineArgs:
    plugin: str
    plugin_args: Any
    config: Any


class Engine:
    def __init__(self, args: EngineArgs) -> None:
        if os.environ.get("COSMOS_STANDIN_REFUSES"):
            raise RuntimeError("CUDA out of memory")
        assert args.plugin == "cosmos3_wn"
        world = args.config.parallel.world_size
        if world > 1:
            assert int(os.environ["WORLD_SIZE"]) == world
            torch.distributed.init_process_group("gloo")
        print(f"loaded {args.plugin_args} {args.config.parallel}", flush=True)
        scheduler = SimpleNamespace(device="cpu", runner=Runner(), encode=encode)
        self.entry = SimpleNamespace(transformer="weights", vae="vae", scheduler=scheduler)

    def step(self, request: Any) -> Any:
        assert request.video_shape[0] > 1 and not torch.is_tensor(request.fps)
        seen = None
        if request.cond_latents is not None:
            assert request.cond_latents.shape[2:] == request.video_shape
            seen = request.cond_latents[0, :3, request.cond_frame_indexes[-1]]
        video = denoised(self.entry.scheduler.runner, request, seen)
        if request.sound_frames is None:
            return video
        wave = torch.sin(torch.arange(request.sound_frames * 1920) * 0.05) * 0.5
        return {"video": video, "sound": torch.stack([wave, wave])[None], "sample_rate": 48_000}


class Runner:
    def forward(self, _branch: str, _step: int) -> None:
        """Compute one pass of one step."""


def denoised(runner: Runner, request: Any, seen: Any) -> torch.Tensor:
    """Return a video of [1, 3, T, H, W] between 0 and 1. `seen` is a latent frame of [3, h, w] between -1 and 1."""
    if request.text_ids.shape[1] == DEADLY and int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    for step in range(request.num_inference_steps):
        for branch in ("cond", "uncond"):
            runner.forward(branch, step)
        time.sleep(float(os.environ.get("COSMOS_STANDIN_STEP_SECONDS", "0")))
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(torch.ones(1))
    latent_frames, height, width = request.video_shape
    video = torch.full((1, 3, (latent_frames - 1) * 4 + 1, height * 16, width * 16), 0.25)
    if seen is not None:
        video += torch.nn.functional.interpolate(seen[None], scale_factor=16)[:, :, None] / 8
    for index in range(video.shape[2]):
        video[0, 0, index, :, index * 8 : index * 8 + 24] = 0.9
    return video


def encode(pixels: torch.Tensor) -> torch.Tensor:
    """Return latents of the VAE's shape, with colors in place of channels."""
    assert pixels.ndim == 5 and pixels.shape[2] % 4 == 1 and pixels.min() >= -1 and pixels.max() <= 1
    return pixels[:, :, ::4, ::16, ::16]
