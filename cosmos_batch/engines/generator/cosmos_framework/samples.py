"""A generation as one sample of Cosmos Framework's argument model, which refuses what it does not know.

Everything is said: what is left out has other defaults for each mode there, which an empty file of defaults keeps away.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cosmos_batch.catalogue.generation import SIZES, Hint, Mode, Size
from cosmos_batch.catalogue.generator_engines import GENERATOR_ABILITIES
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
# What templates say stands in the captions. Where there is none it needs an empty text.
_NO_TEMPLATES = {
    "negative_metadata_mode": "none",
    "negative_prompt_keep_metadata": False,
    "inverse_duration_template": "",
    "inverse_resolution_template": "",
}
_BEST_VIDEO, _BEST_IMAGE = 10, 100  # it is decoded and written again: little is to be lost twice


@dataclass(frozen=True)
class SampleFiles:
    """Files of a sample: the framework reads nothing else.

    Attributes
    ----------
    defaults
        Which there are none of.
    vision
        PNG, or MP4, of exactly the size and frames that it keeps.
    """

    defaults: Path
    vision: Path | None = None
    controls: dict[Hint, Path] = field(default_factory=dict)
    actions: Path | None = None


def write_sample_files(prepared: PreparedGeneration, folder: Path, check: Callable[[], None]) -> SampleFiles:
    """Write them; `check` is called after each frame, and what it raises ends it."""
    folder.mkdir(exist_ok=True)
    asked = prepared.generation
    defaults, actions = folder / "defaults.json", None
    defaults.write_text("{}", encoding="utf-8")
    if prepared.actions is not None:
        actions = folder / "actions.json"
        actions.write_text(json.dumps(prepared.actions), encoding="utf-8")
    controls = {
        hint: _video(asked, frames, folder / f"given_{hint}.mp4", check) for hint, frames in prepared.controls.items()
    }
    vision = None
    if asked.conditioning or asked.mode == "inverse_dynamics":
        vision = _video(asked, prepared.frames, folder / "given.mp4", check)
    elif prepared.frames:
        vision = folder / "given.png"
        write_image(vision, prepared.frames[0])
    return SampleFiles(defaults, vision, controls, actions)


def sample_for(asked: Generation, size: Size, given: SampleFiles) -> dict[str, Any]:
    """The sample, for a generation that this engine can make."""
    assert asked.fps is not None and asked.num_frames is not None  # of transfer alone they were open
    captions = captions_for(asked, size)
    sample: dict[str, Any] = {
        "name": "sample",
        "defaults_file": str(given.defaults),
        "model_mode": _MODES.get(asked.mode, asked.mode),
        # Of actions it makes the same caption itself.
        "prompt": asked.prompt if asked.action else protect_json(captions.prompt),
        "negative_prompt": captions.negative,
        **_NO_TEMPLATES,
        "num_outputs": 1,
        "num_steps": asked.steps,
        "guidance": asked.guidance_scale,
        "normalize_cfg": False,
        "shift": asked.flow_shift,
        "sigma_max": 80.0,  # of a sampler that is not used
        "seed": asked.seed,
        "fps": round(asked.fps),
        "num_frames": asked.num_frames,
        "video_save_quality": _BEST_VIDEO,
        "image_save_quality": _BEST_IMAGE,
        "enable_sound": asked.sound,
    }
    if asked.guidance_interval:
        sample["guidance_interval"] = list(asked.guidance_interval)
    if given.vision is not None:
        sample["vision_path"] = str(given.vision)
    if asked.action:
        return sample | _action(asked, given)
    sample |= _tier(size)
    if asked.conditioning:  # what is kept of a longer video was cut out already
        sample |= {"condition_frame_indexes_vision": asked.conditioning.frames, "condition_video_keep": "first"}
    return sample | (_transfer(asked, given) if asked.transfer else {})


def _tier(size: Size) -> dict[str, str]:
    """It takes the sizes of NVIDIA's table alone, by their names."""
    return next(
        {"resolution": tier.removesuffix("p"), "aspect_ratio": ratio.replace(":", ",")}
        for tier, sizes in SIZES.items()
        for ratio, one in sizes.items()
        if one == size
    )


def _action(asked: Generation, given: SampleFiles) -> dict[str, Any]:
    settings = asked.action
    assert settings is not None and asked.resolution is not None
    tier = asked.resolution.removesuffix("p")
    return {
        "resolution": tier,
        "image_size": int(tier),  # a tier too, on whose canvas the input lies
        "domain_name": GENERATOR_ABILITIES["cosmos-framework"].domain_names.get(
            settings.domain_name, settings.domain_name
        ),
        "action_chunk_size": settings.chunk_size,
        "raw_action_dim": settings.width,
        "view_point": settings.view_point,
        **({"action_path": str(given.actions)} if given.actions else {}),
    }


def _transfer(asked: Generation, given: SampleFiles) -> dict[str, Any]:
    settings = asked.transfer
    assert settings is not None and asked.num_frames is not None
    return {
        "control_guidance": settings.control_guidance,
        "num_video_frames_per_chunk": min(settings.frames_per_chunk, asked.num_frames),
        "num_conditional_frames": 1,
        "num_first_chunk_conditional_frames": 0,
        "max_frames": asked.num_frames,
        "share_vision_temporal_positions": True,
        "emphasize_control_in_prompt": False,  # a sentence behind the prompt, of which Diffusers does not know
        "show_control_condition": False,
        "show_input": False,
        **{
            hint: {"control_path": str(given.controls[hint]), "weight": control.weight}
            for hint, control in settings.controls.items()
        },
    }


def _video(asked: Generation, frames: Frames, path: Path, check: Callable[[], None]) -> Path:
    assert asked.fps is not None
    write_video(path, frames, exact_rate(asked.fps), check=check, lossless=True)
    return path
