"""The program of each process of a PhyAI group: one set of weights for videos, sound and actions.

A request is `{"request": ..., "folder": ...}` with the request of `requests.request_for`. Every process computes the
whole job, because each takes part in every step; the first one writes `frames.npy` and `sound.npy` into the folder and
returns their names, with the actions.
"""

import argparse
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from cosmos_batch.engines.torchrun.driver import Body, end_with_torchrun, serve

FLOW_SHIFT = 10.0
_SOUND_LATENTS = 25.0  # per second


def main() -> None:
    """Load the model, then serve requests until the process is killed."""
    end_with_torchrun()
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--cfg", type=int, default=1)
    options = parser.parse_args()
    serve(PhyAI(options.checkpoint, options.tp, options.cfg), options.socket, _is_first())


class PhyAI:
    """A `GroupModel` on PhyAI."""

    def __init__(self, checkpoint: str, tp: int, cfg: int) -> None:
        from phyai.engine import Engine
        from phyai.models.cosmos3.scheduler_wn_cosmos3_policy import Cosmos3PolicyWNScheduler

        self.steps = 0
        self._checkpoint = checkpoint
        self._engine = Engine(engine_arguments(checkpoint, tp, cfg, os.environ.get("LOCAL_RANK", "0")))
        entry = self._engine.entry
        # PhyAI's own plugin for actions would load the weights a second time; this scheduler shares them.
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
        """Build PhyAI's request on the CPU, which validates it. Raises ValueError."""
        self._request(body["request"])

    def read(self, body: Body) -> tuple[Any, Any]:
        """Return PhyAI's request and the frames that condition a video; None where there are none."""
        parameters = body["request"]
        conditions = parameters["mode"] == "video" and parameters["frames"] is not None
        return self._request(parameters), pixels_of(parameters["frames"]) if conditions else None

    def work(self, body: Body, inputs: tuple[Any, Any]) -> Body | None:
        """Generate in every process of torchrun's group; the first writes the output and returns its answer."""
        parameters, folder = body["request"], Path(body["folder"])
        request, pixels = inputs
        if parameters["mode"] == "video":
            result = self._engine.step(request if pixels is None else self._conditioned(request, pixels))
            output = result if isinstance(result, dict) else {"video": result}
        else:
            result = self._actions.step(request, decode_video=True)
            output = {"video": result["pixels"], "action": result["action"][0, :, : parameters["action"]["width"]]}
        return _write(output, folder) if _is_first() else None

    def _request(self, parameters: Body) -> Any:
        make = video_request if parameters["mode"] == "video" else action_request
        return make(parameters, f"{self._checkpoint}/text_tokenizer")

    def _conditioned(self, request: Any, pixels: Any) -> Any:
        """Return the request with the latents of the input frames, padded with zeros, which PhyAI does not read.

        The VAE is causal: the latents of the first frames do not depend on later ones.
        """
        import torch

        latents = self._engine.entry.scheduler.encode(pixels)
        rest = request.video_shape[0] - latents.shape[2]
        whole = torch.nn.functional.pad(latents, (0, 0, 0, 0, 0, rest))
        return replace(request, cond_latents=whole)

    def _count_steps(self, runner: Any) -> None:
        forward = runner.forward

        def counted(*arguments: Any, **options: Any) -> Any:
            self.steps += arguments[0] == "cond"  # with guidance, a step has a second pass, which is not counted
            return forward(*arguments, **options)

        runner.forward = counted


def engine_arguments(checkpoint: str, tp: int, cfg: int, local_rank: str) -> Any:
    """Return the arguments of PhyAI's engine for one process."""
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


def video_request(parameters: Body, tokenizer: str) -> Any:
    """Build PhyAI's own request for a video. Raises ValueError."""
    from phyai.models.cosmos3 import Cosmos3T2VRequest, pixel_to_latent_shape

    seconds = parameters["num_frames"] / parameters["fps"]
    return Cosmos3T2VRequest(
        **tokens_of(parameters, tokenizer),
        video_shape=pixel_to_latent_shape(parameters["num_frames"], parameters["height"], parameters["width"]),
        fps=parameters["fps"],
        num_inference_steps=parameters["steps"],
        guidance_scale=parameters["guidance_scale"],
        seed=parameters["seed"],
        cond_frame_indexes=tuple(parameters["condition_frames"]),
        sound_frames=math.ceil(seconds * _SOUND_LATENTS) if parameters["sound"] else None,
    )


def action_request(parameters: Body, tokenizer: str) -> Any:
    """Build PhyAI's own request with actions. Raises ValueError.

    The picture is not padded to its canvas, although the caption names the canvas's size: the padding would be cropped.
    """
    import torch
    from phyai.models.cosmos3 import Cosmos3ActionRequest, pixel_to_latent_shape
    from phyai_utils_tools.models.cosmos3 import resolve_domain_id
    from phyai_utils_tools.models.cosmos3.steps_cosmos3 import Cosmos3ActionPadStep

    action = parameters["action"]
    padding = Cosmos3ActionPadStep(
        action_chunk_size=action["chunk_size"], raw_action_dim=action["width"], mode=parameters["mode"]
    )
    rows = padding({"cond_action": None if action["rows"] is None else torch.tensor(action["rows"])})["cond_action"]
    # There is one frame for each action: frames to be generated start as copies of the last input frame.
    pixels = pixels_of(parameters["frames"])
    rest = parameters["num_frames"] - pixels.shape[2]
    return Cosmos3ActionRequest(
        **tokens_of(parameters, tokenizer),
        video_shape=pixel_to_latent_shape(parameters["num_frames"], parameters["height"], parameters["width"]),
        mode=parameters["mode"],
        domain_id=resolve_domain_id(action["domain_name"]),
        action_chunk=action["chunk_size"],
        raw_action_dim=action["width"],
        cond_video_pixels=torch.cat([pixels, pixels[:, :, -1:].expand(-1, -1, rest, -1, -1)], dim=2),
        cond_action=rows,
        fps=parameters["fps"],
        num_inference_steps=parameters["steps"],
        guidance_scale=parameters["guidance_scale"],
        seed=parameters["seed"],
    )


def tokens_of(parameters: Body, tokenizer: str) -> Body:
    """Return token ids and masks of both prompts in the model's chat template, with our system prompt, not PhyAI's."""
    import torch
    from phyai_utils_tools.models.cosmos3 import Cosmos3Processor

    processor = Cosmos3Processor(tokenizer, append_metadata=False)
    system = [{"role": "system", "content": parameters["system_prompt"]}] if parameters["system_prompt"] else []
    tokens: Body = {}
    for prefix, text in (("", parameters["prompt"]), ("neg_", parameters["negative_prompt"])):
        chat = [*system, {"role": "user", "content": text}]
        encoded = processor.tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
        ids = torch.tensor([[*encoded["input_ids"], processor.eos_token_id, processor.vision_start_token_id]])
        tokens |= {f"{prefix}text_ids": ids, f"{prefix}text_mask": torch.ones_like(ids)}
    return tokens


def pixels_of(frames: str) -> Any:
    """Load frames from a `.npy` file as a tensor of [1, 3, T, H, W] between -1 and 1."""
    import numpy as np
    import torch

    pixels = torch.from_numpy(np.load(frames)).permute(3, 0, 1, 2).float()
    return (pixels / 127.5 - 1).unsqueeze(0)


def _write(output: Body, folder: Path) -> Body:
    import numpy as np

    video = output["video"][0].clamp(0, 1)
    np.save(folder / "frames.npy", (video * 255).round().byte().permute(1, 2, 3, 0).cpu().numpy())
    answer: Body = {"frames": "frames.npy", "sound": None, "rate": None, "actions": None}
    if "sound" in output:
        sound = output["sound"].detach().float().cpu().numpy()
        np.save(folder / "sound.npy", sound.reshape(-1, sound.shape[-1]))
        answer |= {"sound": "sound.npy", "rate": int(output["sample_rate"])}
    if "action" in output:
        answer["actions"] = output["action"].float().cpu().tolist()
    return answer


def _is_first() -> bool:
    return os.environ.get("RANK", "0") == "0"


if __name__ == "__main__":
    main()
