"""PhyAI as a resident group: one set of weights for videos, with sound and actions too.

A request is what `requests` makes, with a folder. Every process makes the same, for each must enter every step;
the first writes: `frames.npy` and `sound.npy` in the folder, named in the answer with the actions.
"""

import argparse
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from cosmos_batch.engines.torchrun.driver import Body, serve

FLOW_SHIFT = 10.0
_SOUND_LATENTS = 25.0  # a second


def main() -> None:
    """Load, then serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--cfg", type=int, default=1)
    given = parser.parse_args()
    serve(PhyAI(given.checkpoint, given.tp, given.cfg), given.socket, _is_first())


class PhyAI:
    """A `Resident`."""

    def __init__(self, checkpoint: str, tp: int, cfg: int) -> None:
        from phyai.engine import Engine
        from phyai.models.cosmos3.scheduler_wn_cosmos3_policy import Cosmos3PolicyWNScheduler

        self.steps = 0
        self._checkpoint = checkpoint
        self._engine = Engine(engine_arguments(checkpoint, tp, cfg, os.environ.get("LOCAL_RANK", "0")))
        entry = self._engine.entry
        # PhyAI has another plugin for actions, which would load the weights once more.
        self._actions = Cosmos3PolicyWNScheduler(
            entry.transformer,
            vae=entry.vae,
            device=entry.scheduler.device,
            flow_shift=FLOW_SHIFT,
            use_karras_sigmas=False,
        )
        self._actions.setup()
        for runner in (entry.scheduler.runner, self._actions.runner):
            self._count_steps(runner)

    def check(self, body: Body) -> None:
        """By PhyAI's own tokenizer and processors, on the CPU."""
        self._request(body["request"])

    def work(self, body: Body) -> Body | None:
        """Every process makes it; the first writes it."""
        asked, folder = body["request"], Path(body["folder"])
        request = self._request(asked)
        if asked["mode"] == "video":
            result = self._engine.step(self._conditioned(request, asked))
            made = result if isinstance(result, dict) else {"video": result}
        else:
            result = self._actions.step(request, decode_video=True)
            made = {"video": result["pixels"], "action": result["action"][0, :, : asked["action"]["width"]]}
        return _written(made, folder) if _is_first() else None

    def _request(self, asked: Body) -> Any:
        make = video_request if asked["mode"] == "video" else action_request
        return make(asked, f"{self._checkpoint}/text_tokenizer")

    def _conditioned(self, request: Any, asked: Body) -> Any:
        """With the latents of what is kept; of the others nothing is read. The VAE looks at no later frame."""
        if asked["frames"] is None:
            return request
        import torch

        latents = self._engine.entry.scheduler.encode(pixels_of(asked["frames"]))
        rest = request.video_shape[0] - latents.shape[2]
        whole = torch.nn.functional.pad(latents, (0, 0, 0, 0, 0, rest))
        return replace(request, cond_latents=whole)

    def _count_steps(self, runner: Any) -> None:
        forward = runner.forward

        def counted(*arguments: Any, **options: Any) -> Any:
            self.steps += arguments[0] == "cond"  # the other branch is of the same step
            return forward(*arguments, **options)

        runner.forward = counted


def engine_arguments(checkpoint: str, tp: int, cfg: int, local_rank: str) -> Any:
    """Of PhyAI's engine."""
    import torch
    from phyai.engine import EngineArgs
    from phyai.engine_config import DeviceConfig, EngineConfig, ParallelConfig, RuntimeConfig
    from phyai.models.cosmos3.main_cosmos3_wn import Cosmos3WNArgs

    return EngineArgs(
        plugin="cosmos3_wn",
        plugin_args=Cosmos3WNArgs(checkpoint_dir=checkpoint, flow_shift=FLOW_SHIFT, use_karras_sigmas=False),
        config=EngineConfig(
            device=DeviceConfig(target=f"cuda:{local_rank}", params_dtype=torch.bfloat16),
            parallel=ParallelConfig(world_size=cfg * tp, cfg_size=cfg, tp_size=tp),
            runtime=RuntimeConfig(use_cuda_graph=False),
        ),
    )


def video_request(asked: Body, tokenizer: str) -> Any:
    """PhyAI's own request for a video. Raises ValueError."""
    from phyai.models.cosmos3 import Cosmos3T2VRequest, pixel_to_latent_shape

    seconds = asked["num_frames"] / asked["fps"]
    return Cosmos3T2VRequest(
        **tokens_of(asked, tokenizer),
        video_shape=pixel_to_latent_shape(asked["num_frames"], asked["height"], asked["width"]),
        fps=asked["fps"],
        num_inference_steps=asked["steps"],
        guidance_scale=asked["guidance_scale"],
        seed=asked["seed"],
        cond_frame_indexes=tuple(asked["condition_frames"]),
        sound_frames=math.ceil(seconds * _SOUND_LATENTS) if asked["sound"] else None,
    )


def action_request(asked: Body, tokenizer: str) -> Any:
    """PhyAI's own request with actions. Raises ValueError.

    The picture keeps its shape: what pads it to the canvas of its tier, of which the caption speaks, is nothing to see.
    """
    import torch
    from phyai.models.cosmos3 import Cosmos3ActionRequest, pixel_to_latent_shape
    from phyai_utils_tools.models.cosmos3 import resolve_domain_id
    from phyai_utils_tools.models.cosmos3.steps_cosmos3 import Cosmos3ActionPadStep

    action = asked["action"]
    padding = Cosmos3ActionPadStep(
        action_chunk_size=action["chunk_size"], raw_action_dim=action["width"], mode=asked["mode"]
    )
    rows = padding({"cond_action": None if action["rows"] is None else torch.tensor(action["rows"])})["cond_action"]
    # Beside each action stands a frame: those to be made begin as the last one that is seen.
    pixels = pixels_of(asked["frames"])
    rest = asked["num_frames"] - pixels.shape[2]
    return Cosmos3ActionRequest(
        **tokens_of(asked, tokenizer),
        video_shape=pixel_to_latent_shape(asked["num_frames"], asked["height"], asked["width"]),
        mode=asked["mode"],
        domain_id=resolve_domain_id(action["domain_name"]),
        action_chunk=action["chunk_size"],
        raw_action_dim=action["width"],
        cond_video_pixels=torch.cat([pixels, pixels[:, :, -1:].expand(-1, -1, rest, -1, -1)], dim=2),
        cond_action=rows,
        fps=asked["fps"],
        num_inference_steps=asked["steps"],
        guidance_scale=asked["guidance_scale"],
        seed=asked["seed"],
    )


def tokens_of(asked: Body, tokenizer: str) -> Body:
    """Both prompts in the model's chat template, behind the system prompt, as tensors; PhyAI's has other words."""
    import torch
    from phyai_utils_tools.models.cosmos3 import Cosmos3Processor

    processor = Cosmos3Processor(tokenizer, append_metadata=False)
    system = [{"role": "system", "content": asked["system_prompt"]}] if asked["system_prompt"] else []
    tokens: Body = {}
    for prefix, text in (("", asked["prompt"]), ("neg_", asked["negative_prompt"])):
        chat = [*system, {"role": "user", "content": text}]
        found = processor.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
        ids = torch.tensor([[*found["input_ids"], processor.eos_token_id, processor.vision_start_token_id]])
        tokens |= {f"{prefix}text_ids": ids, f"{prefix}text_mask": torch.ones_like(ids)}
    return tokens


def pixels_of(frames: str) -> Any:
    """[1, 3, T, H, W], between -1 and 1."""
    import numpy as np
    import torch

    pixels = torch.from_numpy(np.load(frames)).permute(3, 0, 1, 2).float()
    return (pixels / 127.5 - 1).unsqueeze(0)


def _written(made: Body, folder: Path) -> Body:
    import numpy as np

    video = made["video"][0].clamp(0, 1)
    np.save(folder / "frames.npy", (video * 255).round().byte().permute(1, 2, 3, 0).cpu().numpy())
    answer: Body = {"frames": "frames.npy", "sound": None, "rate": None, "actions": None}
    if "sound" in made:
        sound = made["sound"].detach().float().cpu().numpy()
        np.save(folder / "sound.npy", sound.reshape(-1, sound.shape[-1]))
        answer |= {"sound": "sound.npy", "rate": int(made["sample_rate"])}
    if "action" in made:
        answer["actions"] = made["action"].float().cpu().tolist()
    return answer


def _is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"


if __name__ == "__main__":
    main()
