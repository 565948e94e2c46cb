"""A generation as a request of vLLM-Omni's HTTP API, of release 0.30.

Everything is said: what is left out has other defaults for each mode there, and a video without `num_frames` is one
frame long.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from cosmos_batch.catalogue.generation import SIZES, VIDEO_RESOLUTIONS, Hint, Size
from cosmos_batch.catalogue.generator_engines import GENERATOR_ABILITIES
from cosmos_batch.engines.generator.captions import captions_for, protect_json
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration
from cosmos_batch.engines.generator.vllm_omni.plugin import REQUEST_NAME
from cosmos_batch.media import exact_rate, write_video
from cosmos_batch.planning.generation.abilities import refuse_several_uploads

# It is decoded and written again: nothing is to be lost twice.
_LOSSLESS = {"preset": "ultrafast", "qp": "0", "threads": "0"}
# Tokens of chat markup and system prompt, 120 at most: it counts them too, and cuts what is longer without a word.
_AROUND_A_PROMPT = 256
_PNG, _MP4 = "image/png", "video/mp4"

Upload = tuple[str, bytes, str]  # name, content, type


@dataclass(frozen=True)
class VideoForm:
    """Of `POST /v1/videos`."""

    fields: dict[str, str]
    files: dict[str, Upload] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Upload | tuple[None, str]]:
        """All of it as a multipart body."""
        return {name: (None, text) for name, text in self.fields.items()} | self.files


def image_body(prepared: PreparedGeneration, checks_of: str) -> dict[str, Any]:
    """Of `POST /v1/images/generations`; `checks_of` is the name by which our own server reports its checks."""
    extra = {**_extra(prepared), REQUEST_NAME: checks_of}
    return {
        **_common(prepared),
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
        "extra_params": extra,
        "extra_args": extra,  # as images before 0.30 call it
    }


def video_form(
    prepared: PreparedGeneration, checks_of: str, folder: Path, shares_files: bool, check: Callable[[], None]
) -> VideoForm:
    """Its media are written into `folder`; `check` is called after each frame, and what it raises ends it. For
    `checks_of`, see `image_body`.

    Raises Failure (InvalidInput) for several controls on a server that does not see our files: it takes one upload.
    """
    asked = prepared.generation
    files: dict[str, Upload] = {}
    extra = {**_extra(prepared), REQUEST_NAME: checks_of, "video_codec_options": _LOSSLESS}
    fields = {name: str(value) for name, value in _common(prepared).items()}
    fields |= {"num_frames": str(asked.num_frames), "fps": str(asked.fps)}
    fields["generate_sound"] = str(asked.sound).lower()
    if asked.conditioning:
        # What is kept was cut out already.
        extra |= {"condition_frame_indexes_vision": asked.conditioning.frames, "condition_video_keep": "first"}
    if asked.action:
        extra |= _action(prepared)
    if asked.transfer:
        written = {
            hint: _written(prepared, frames, folder / f"{hint}.mp4", check)
            for hint, frames in prepared.controls.items()
        }
        more, uploads = _controls(prepared, written, shares_files)
        extra |= more
        for hint, upload in uploads.items():
            fields["control_type"], files["control_reference"] = hint, upload
    elif asked.conditioning or asked.mode == "inverse_dynamics":
        path = _written(prepared, prepared.frames, folder / "given.mp4", check)
        files["input_reference"] = ("given.mp4", path.read_bytes(), _MP4)
    elif prepared.frames:
        files["input_reference"] = ("given.png", _png(prepared.frames), _PNG)
    return VideoForm({**fields, "extra_params": json.dumps(extra)}, files)


def _common(prepared: PreparedGeneration) -> dict[str, Any]:
    asked = prepared.generation
    captions = captions_for(asked, prepared.size)
    return {
        "prompt": protect_json(captions.prompt),
        "negative_prompt": captions.negative,
        "size": str(prepared.size),
        "num_inference_steps": asked.steps,
        "guidance_scale": asked.guidance_scale,
        "flow_shift": asked.flow_shift,
        "seed": asked.seed,
    }


def _extra(prepared: PreparedGeneration) -> dict[str, Any]:
    asked = prepared.generation
    assert asked.max_sequence_length is not None, "it was counted"
    return {
        "guardrails": asked.guardrails,
        "max_sequence_length": asked.max_sequence_length + _AROUND_A_PROMPT,
        # All of these stand in the captions.
        "use_resolution_template": False,
        "use_duration_template": False,
        "negative_metadata_mode": "none",
        # By itself v2v alone has one; transfer has its own, whatever is said.
        **({} if asked.transfer else {"use_system_prompt": asked.action is None}),
        **({"guidance_interval": asked.guidance_interval} if asked.guidance_interval else {}),
    }


def _action(prepared: PreparedGeneration) -> dict[str, Any]:
    settings = prepared.generation.action
    assert settings is not None
    number = GENERATOR_ABILITIES["vllm-omni"].domain_ids.get(settings.domain_name)
    return {
        "action_mode": prepared.generation.mode,
        **({"domain_name": settings.domain_name} if number is None else {"domain_id": number}),
        "raw_action_dim": settings.width,
        "action_chunk_size": settings.chunk_size,
        **({"action": prepared.actions} if prepared.actions else {}),
    }


def _controls(
    prepared: PreparedGeneration, written: dict[Hint, Path], shares_files: bool
) -> tuple[dict[str, Any], dict[Hint, Upload]]:
    """What is said of the controls, and what is uploaded."""
    asked = prepared.generation
    assert asked.transfer is not None and asked.num_frames is not None
    said: dict[str, Any] = {
        "control_guidance": asked.transfer.control_guidance,
        "num_video_frames_per_chunk": min(asked.transfer.frames_per_chunk, asked.num_frames),
        "resolution": _tier(prepared.size),
        "emphasize_control_in_prompt": False,  # a sentence behind the prompt, of which Diffusers does not know
    }
    weights = {hint: {"control_weight": control.weight} for hint, control in asked.transfer.controls.items()}
    if shares_files:
        return said | {hint: {**weights[hint], "control_path": str(path)} for hint, path in written.items()}, {}
    refuse_several_uploads(asked.transfer.controls)
    return said | weights, {hint: (path.name, path.read_bytes(), _MP4) for hint, path in written.items()}


def _tier(size: Size) -> str:
    """The table of which it takes the size that is the control's: `size` itself it does not look at then."""
    return next(tier.removesuffix("p") for tier in VIDEO_RESOLUTIONS if size in SIZES[tier].values())


def _written(prepared: PreparedGeneration, frames: Frames, path: Path, check: Callable[[], None]) -> Path:
    fps = prepared.generation.fps
    assert fps is not None
    write_video(path, frames, exact_rate(fps), check=check, lossless=True)
    return path


def _png(frames: Frames) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frames[0]).save(file, "PNG", compress_level=1)
    return file.getvalue()
