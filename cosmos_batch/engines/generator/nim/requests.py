"""Building the body of `POST /v1/infer` from a prepared generation.

The server refuses a field that it does not know, one that does not belong to the task, and a number of the wrong type.
Inputs are sent within the body. Videos are ordinary H.264, because NVIDIA does not say what the server decodes and its
own examples are such files. Images need no check of their size: one of the largest size that a job can have is smaller
than the server's limit, however it is compressed.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.generation import Mode, Size, aspect_ratio_of, tier_of
from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.data_urls import data_url
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration
from cosmos_batch.media import exact_rate, write_image, write_video

PROMPT_CHARACTERS = 20_000
VIDEO_CHARACTERS = 100_000_000  # of base64; for the input of a video NVIDIA names 75 MB before that, which are as many

_MODES: dict[Mode, str] = {
    "t2i": "text2image",
    "t2v": "text2video",
    "i2v": "image2video",
    "v2v": "video2video",
    "transfer": "video2video",
    "forward_dynamics": "forward_dynamics",
    "inverse_dynamics": "inverse_dynamics",
    "policy": "policy",
}


def infer_body(prepared: PreparedGeneration, folder: Path, check: Callable[[], None]) -> dict[str, Any]:
    """Return the JSON body for a generation; blocks.

    Inputs are encoded into files in `folder`; `check` is called after each frame, and an exception that it raises ends
    the work. Raises Failure (InvalidInput) for a prompt or a video that is longer than the server takes.
    """
    generation = prepared.generation
    _refuse_long_prompts(prepared)
    body = {
        "model_mode": _MODES[generation.mode],
        "prompt": generation.prompt,
        "seed": generation.seed,
        "fps": generation.fps,
        **_sampling(prepared),
    }
    if generation.action:
        return body | {"action_params": _action(prepared), "input_reference": _reference(prepared, folder, check)}
    body |= {"resolution": _resolution(prepared.size), "num_frames": generation.num_frames}
    if generation.transfer:
        return body | {"transfer": _transfer(prepared, folder, check)}
    if generation.conditioning:
        # The frames to keep were cut out by `inputs.prepare`: they are the first.
        body |= {"condition_frame_indexes_vision": generation.conditioning.frames, "condition_video_keep": "first"}
    if prepared.frames:
        body["input_reference"] = _reference(prepared, folder, check)
    return body


def _refuse_long_prompts(prepared: PreparedGeneration) -> None:
    generation = prepared.generation
    for field, text in (("prompt", generation.prompt), ("negativePrompt", generation.negative_prompt)):
        if len(text) > PROMPT_CHARACTERS:
            raise Failure(
                "InvalidInput",
                f"{field}: has {len(text):,} characters, and the server of this pipeline takes {PROMPT_CHARACTERS:,}.",
                "Shorten it.",
            )


def _sampling(prepared: PreparedGeneration) -> dict[str, Any]:
    """Return how to denoise. A distilled model sets that itself and refuses the fields; a negative prompt has an effect
    only with guidance."""
    generation = prepared.generation
    if generation.distilled:
        return {}
    return {
        "num_inference_steps": generation.steps,
        "guidance_scale": generation.guidance_scale,
        "flow_shift": generation.flow_shift,
        **({"negative_prompt": generation.negative_prompt} if generation.guided else {}),
    }


def _resolution(size: Size) -> str:
    """Return the key of a size of NVIDIA's table, such as `720_16_9`."""
    tier, ratio = tier_of(size), aspect_ratio_of(size)
    assert tier is not None and ratio is not None, "the plan refuses sizes that are not in the table"
    return f"{tier.removesuffix('p')}_{ratio.replace(':', '_')}"


def _action(prepared: PreparedGeneration) -> dict[str, Any]:
    generation = prepared.generation
    assert generation.action is not None and generation.resolution is not None, "a job with actions has a tier"
    return {
        "domain_name": generation.action.domain_name,
        "action_chunk_size": generation.action.chunk_size,
        "raw_action_dim": generation.action.width,
        "action_space": "joint_pos",
        "image_size": generation.resolution.removesuffix("p"),
        "action_fps": generation.fps,
        **({"action": prepared.actions} if prepared.actions else {}),
    }


def _transfer(prepared: PreparedGeneration, folder: Path, check: Callable[[], None]) -> dict[str, Any]:
    generation = prepared.generation
    assert generation.transfer is not None and generation.num_frames is not None
    weights = {hint: control.weight for hint, control in generation.transfer.controls.items()}
    are_weighted = len(set(weights.values())) > 1
    return {
        **{
            hint: {
                "video": _video(prepared, frames, f"controls.{hint}", folder / f"{hint}.mp4", check),
                **({"control_weight": weights[hint]} if are_weighted else {}),  # since release 2.1
            }
            for hint, frames in prepared.controls.items()
        },
        "control_guidance": generation.transfer.control_guidance,
        "num_video_frames_per_chunk": min(generation.transfer.frames_per_chunk, generation.num_frames),
        "num_conditional_frames": 1,
        "num_first_chunk_conditional_frames": 0,
    }


def _reference(prepared: PreparedGeneration, folder: Path, check: Callable[[], None]) -> str:
    """Return the input as a data URL: a video where the mode reads several frames of it, else an image."""
    if prepared.generation.mode in ("v2v", "inverse_dynamics"):
        return _video(prepared, prepared.frames, "input", folder / "sent.mp4", check)
    path = folder / "sent.png"
    write_image(path, prepared.frames[0])
    return data_url("image/png", path.read_bytes())


def _video(prepared: PreparedGeneration, frames: Frames, field: str, path: Path, check: Callable[[], None]) -> str:
    """Return frames as a data URL. `field` is the request's field for an error."""
    fps = prepared.generation.fps
    assert fps is not None, "`prepare` has settled it"
    write_video(path, frames, exact_rate(fps), check=check)
    url = data_url("video/mp4", path.read_bytes())
    if len(url) > VIDEO_CHARACTERS:
        raise Failure(
            "InvalidInput",
            f"{field}: has {len(url):,} characters when it is encoded for the server, which takes "
            f"{VIDEO_CHARACTERS:,}.",
            "Use fewer frames or a smaller resolution.",
        )
    return url
