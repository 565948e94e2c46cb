"""Building the requests of vLLM-Omni's HTTP API (release 0.30) from a prepared generation.

Every parameter is sent, because the server's defaults differ by mode; a video without `num_frames`, for example, has
one frame.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from cosmos_batch.catalogue.engines import GENERATOR_ABILITIES
from cosmos_batch.catalogue.generation import Hint, Size, tier_of
from cosmos_batch.engines.generator.captions import captions_for, protect_json
from cosmos_batch.engines.generator.inputs import Frames, PreparedGeneration
from cosmos_batch.engines.generator.vllm_omni.plugin import REQUEST_NAME
from cosmos_batch.media import exact_rate, write_video
from cosmos_batch.planning.generation.abilities import refuse_several_uploads

# The worker decodes the server's video and encodes it anew, so the server's own encoding must lose nothing.
_LOSSLESS = {"preset": "ultrafast", "qp": "0", "threads": "0"}
# The server counts chat markup and system prompt too (at most 120 tokens), and truncates silently what is longer.
_MARKUP_TOKENS = 256
_PNG, _MP4 = "image/png", "video/mp4"

Upload = tuple[str, bytes, str]  # name, content, type


@dataclass(frozen=True)
class VideoForm:
    """The multipart form of `POST /v1/videos`."""

    fields: dict[str, str]
    files: dict[str, Upload] = field(default_factory=dict)

    @property
    def parts(self) -> dict[str, Upload | tuple[None, str]]:
        """Return fields and files as httpx2 takes them for a multipart body."""
        return {name: (None, text) for name, text in self.fields.items()} | self.files


def image_body(prepared: PreparedGeneration, request_name: str) -> dict[str, Any]:
    """Return the JSON body of `POST /v1/images/generations`. The plugin reports verdicts under `request_name`."""
    extra = {**_extra(prepared), REQUEST_NAME: request_name}
    return {
        **_common(prepared),
        "n": 1,
        "response_format": "b64_json",
        "output_format": "png",
        "extra_params": extra,
        "extra_args": extra,  # the name before release 0.30
    }


def video_form(
    prepared: PreparedGeneration, request_name: str, folder: Path, shares_files: bool, check: Callable[[], None]
) -> VideoForm:
    """Return the form of `POST /v1/videos`. The plugin reports verdicts under `request_name`.

    Input videos are written into `folder`; `check` is called after each frame, and an exception that it raises ends the
    work. `shares_files` says that the server can read `folder`: otherwise files are uploaded, and a transfer may have
    one control, because the form has room for one (Failure: InvalidInput).
    """
    generation = prepared.generation
    files: dict[str, Upload] = {}
    extra = {**_extra(prepared), REQUEST_NAME: request_name, "video_codec_options": _LOSSLESS}
    fields = {name: str(value) for name, value in _common(prepared).items()}
    fields |= {"num_frames": str(generation.num_frames), "fps": str(generation.fps)}
    fields["generate_sound"] = str(generation.sound).lower()
    if generation.conditioning:
        # The frames to keep were cut out by `inputs.prepare`: they are the first.
        extra |= {"condition_frame_indexes_vision": generation.conditioning.frames, "condition_video_keep": "first"}
    if generation.action:
        extra |= _action(prepared)
    if generation.transfer:
        written = {
            hint: _written(prepared, frames, folder / f"{hint}.mp4", check)
            for hint, frames in prepared.controls.items()
        }
        more, uploads = _controls(prepared, written, shares_files)
        extra |= more
        for hint, upload in uploads.items():
            fields["control_type"], files["control_reference"] = hint, upload
    elif generation.conditioning or generation.mode == "inverse_dynamics":
        path = _written(prepared, prepared.frames, folder / "input.mp4", check)
        files["input_reference"] = ("input.mp4", path.read_bytes(), _MP4)
    elif prepared.frames:
        files["input_reference"] = ("input.png", _png(prepared.frames), _PNG)
    return VideoForm({**fields, "extra_params": json.dumps(extra)}, files)


def _common(prepared: PreparedGeneration) -> dict[str, Any]:
    generation = prepared.generation
    captions = captions_for(generation, prepared.size)
    return {
        "prompt": protect_json(captions.prompt),
        "negative_prompt": captions.negative,
        "size": str(prepared.size),
        "num_inference_steps": generation.steps,
        "guidance_scale": generation.guidance_scale,
        "flow_shift": generation.flow_shift,
        "seed": generation.seed,
    }


def _extra(prepared: PreparedGeneration) -> dict[str, Any]:
    generation = prepared.generation
    assert generation.max_sequence_length is not None, "`with_sequence_length` has set it"
    has_system_prompt = generation.use_system_prompt and generation.action is None
    return {
        "guardrails": generation.guardrails,
        "max_sequence_length": generation.max_sequence_length + _MARKUP_TOKENS,
        # The captions hold what these templates would add.
        "use_resolution_template": False,
        "use_duration_template": False,
        "negative_metadata_mode": "none",
        # The server's default is on for v2v only. A transfer always has a system prompt of its own.
        **({} if generation.transfer else {"use_system_prompt": has_system_prompt}),
        **({"guidance_interval": generation.guidance_interval} if generation.guidance_interval else {}),
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
    """Return the parameters of a transfer, and the files to upload by control."""
    generation = prepared.generation
    assert generation.transfer is not None and generation.num_frames is not None
    parameters: dict[str, Any] = {
        "control_guidance": generation.transfer.control_guidance,
        "num_video_frames_per_chunk": min(generation.transfer.frames_per_chunk, generation.num_frames),
        "resolution": _tier(prepared.size),
        "emphasize_control_in_prompt": False,  # would append a sentence that Diffusers does not have
    }
    weights = {hint: {"control_weight": control.weight} for hint, control in generation.transfer.controls.items()}
    if shares_files:
        return parameters | {hint: {**weights[hint], "control_path": str(path)} for hint, path in written.items()}, {}
    refuse_several_uploads(generation.transfer.controls)
    return parameters | weights, {hint: (path.name, path.read_bytes(), _MP4) for hint, path in written.items()}


def _tier(size: Size) -> str:
    """Return the resolution tier of a size. With controls the server ignores `size`, and takes the control's size if it
    is one of this tier."""
    tier = tier_of(size)
    assert tier is not None, "the plan refuses sizes that are not in the table"
    return tier.removesuffix("p")


def _written(prepared: PreparedGeneration, frames: Frames, path: Path, check: Callable[[], None]) -> Path:
    fps = prepared.generation.fps
    assert fps is not None
    write_video(path, frames, exact_rate(fps), check=check, lossless=True)
    return path


def _png(frames: Frames) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frames[0]).save(file, "PNG", compress_level=1)
    return file.getvalue()
