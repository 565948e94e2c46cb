"""Building one sample of Cosmos Framework's argument model, which refuses unknown parameters, from a generation.

Every parameter is sent, because the framework's defaults differ by mode. They come from a file of defaults, in place of
which the sample names an empty one.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import Hint, Mode, Size, aspect_ratio_of, tier_of
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.generator.captions import captions_for, protect_json
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration
from cosmos_batch.media import exact_rate, write_image, write_video

_MODES: dict[Mode, str] = {
    "t2i": "text2image",
    "t2v": "text2video",
    "i2v": "image2video",
    "v2v": "video2video",
    "transfer": "video2video",
    "policy": "wam",
}
# The captions hold what these templates would add. The framework takes an empty text for "no template".
_NO_TEMPLATES = {
    "negative_metadata_mode": "none",
    "negative_prompt_keep_metadata": False,
    "inverse_duration_template": "",
    "inverse_resolution_template": "",
}
# The worker decodes and encodes both again, so the framework's own encoding is to lose as little as possible.
_BEST_VIDEO, _BEST_IMAGE = 10, 100


@dataclass(frozen=True)
class SampleFiles:
    """The files that a sample refers to.

    Attributes
    ----------
    defaults
        The empty file of defaults.
    vision
        The input as PNG or MP4, with exactly the size and the frames that condition the generation.
    controls
        One MP4 for each control.
    actions
        The rows of a `forward_dynamics` job as JSON.
    """

    defaults: Path
    vision: Path | None = None
    controls: dict[Hint, Path] = field(default_factory=dict)
    actions: Path | None = None


def write_sample_files(prepared: PreparedGeneration, folder: Path, check: Callable[[], None]) -> SampleFiles:
    """Write the files of a sample into `folder`. `check` is called after each frame; an exception that it raises ends
    the work.
    """
    folder.mkdir(exist_ok=True)
    generation = prepared.generation
    defaults, actions = folder / "defaults.json", None
    defaults.write_text("{}", encoding="utf-8")
    if prepared.actions is not None:
        actions = folder / "actions.json"
        actions.write_text(json.dumps(prepared.actions), encoding="utf-8")
    controls = {
        hint: _video(generation, frames, folder / f"control_{hint}.mp4", check)
        for hint, frames in prepared.controls.items()
    }
    vision = None
    if generation.conditioning or generation.mode == "inverse_dynamics":
        vision = _video(generation, prepared.frames, folder / "input.mp4", check)
    elif prepared.frames:
        vision = folder / "input.png"
        write_image(vision, prepared.frames[0])
    return SampleFiles(defaults, vision, controls, actions)


def sample_for(generation: Generation, size: Size, files: SampleFiles) -> dict[str, Any]:
    """Return the sample for a generation that this engine can do (see its abilities)."""
    assert generation.fps is not None and generation.num_frames is not None  # `prepare` has settled them
    captions = captions_for(generation, size)
    sample: dict[str, Any] = {
        "name": "sample",
        "defaults_file": str(files.defaults),
        "model_mode": _MODES.get(generation.mode, generation.mode),
        # With actions, the framework itself writes the same caption in JSON.
        "prompt": generation.prompt if generation.action else protect_json(captions.prompt),
        "negative_prompt": captions.negative,
        **_NO_TEMPLATES,
        "num_outputs": 1,
        "num_steps": generation.steps,
        "guidance": generation.guidance_scale,
        "normalize_cfg": False,
        "shift": generation.flow_shift,
        "sigma_max": 80.0,  # required, and used by another sampler only
        "seed": generation.seed,
        "fps": round(generation.fps),
        "num_frames": generation.num_frames,
        "video_save_quality": _BEST_VIDEO,
        "image_save_quality": _BEST_IMAGE,
        "enable_sound": generation.sound,
    }
    if generation.guidance_interval:
        sample["guidance_interval"] = list(generation.guidance_interval)
    if files.vision is not None:
        sample["vision_path"] = str(files.vision)
    if generation.action:
        return sample | _action(generation, files)
    sample |= _tier(size)
    if generation.conditioning:  # the frames to keep were cut out by `prepare`
        sample |= {"condition_frame_indexes_vision": generation.conditioning.frames, "condition_video_keep": "first"}
    return sample | (_transfer(generation, files) if generation.transfer else {})


def _tier(size: Size) -> dict[str, str]:
    """Return the names of a size in NVIDIA's table; the framework takes no other sizes."""
    tier, ratio = tier_of(size), aspect_ratio_of(size)
    assert tier is not None and ratio is not None, "the plan refuses sizes that are not in the table"
    return {"resolution": tier.removesuffix("p"), "aspect_ratio": ratio.replace(":", ",")}


def _action(generation: Generation, files: SampleFiles) -> dict[str, Any]:
    settings = generation.action
    assert settings is not None and generation.resolution is not None
    tier = generation.resolution.removesuffix("p")
    return {
        "resolution": tier,
        "image_size": int(tier),  # the canvas of the input, also given as a tier
        "domain_name": GENERATOR_ABILITIES["cosmos-framework"].domain_names.get(
            settings.domain_name, settings.domain_name
        ),
        "action_chunk_size": settings.chunk_size,
        "raw_action_dim": settings.width,
        "view_point": settings.view_point,
        **({"action_path": str(files.actions)} if files.actions else {}),
    }


def _transfer(generation: Generation, files: SampleFiles) -> dict[str, Any]:
    settings = generation.transfer
    assert settings is not None and generation.num_frames is not None
    return {
        "control_guidance": settings.control_guidance,
        "num_video_frames_per_chunk": min(settings.frames_per_chunk, generation.num_frames),
        "num_conditional_frames": 1,
        "num_first_chunk_conditional_frames": 0,
        "max_frames": generation.num_frames,
        "share_vision_temporal_positions": True,
        "emphasize_control_in_prompt": False,  # would append a sentence that Diffusers does not have
        "show_control_condition": False,
        "show_input": False,
        **{
            hint: {"control_path": str(files.controls[hint]), "weight": control.weight}
            for hint, control in settings.controls.items()
        },
    }


def _video(generation: Generation, frames: Frames, path: Path, check: Callable[[], None]) -> Path:
    assert generation.fps is not None
    write_video(path, frames, exact_rate(generation.fps), check=check, lossless=True)
    return path
