"""What a caller may set for one generation, wherever it is said: a request, VAMS, metadata, the command line."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.generation.actions import ViewPoint
from cosmos_batch.contract.generation.controls import Controls
from cosmos_batch.contract.generation.modes import Mode
from cosmos_batch.contract.generation.names import ALSO_READ, canonical, own_name
from cosmos_batch.contract.generation.prompts import SEQUENCE_LIMIT
from cosmos_batch.contract.generation.sizes import AspectRatio, Resolution

# Guidance 1 switches guidance off. Steps: NVIDIA uses 30 to 50.
STEPS_LIMIT, GUIDANCE_LIMIT, FLOW_SHIFT_LIMIT, FPS_LIMIT = 200, 20, 20, 60
CONTROL_GUIDANCE_LIMIT = 10  # Cosmos Framework's
SEED_LIMIT = 2**32  # NumPy's, with which one of the engines seeds itself

# Two ways to say a size, of which a job has one.
_PRESET, _PIXELS = ("resolution", "aspect_ratio"), ("width", "height")


class GenerationParameters(Model):
    """What a caller may set for one generation; what is absent is NVIDIA's own value for the mode."""

    mode: Mode | None = Field(default=None, description="What to make; without it, what the input means")
    negative_prompt: str | dict[str, Any] | None = Field(
        default=None, description="What not to make, as text or JSON; NVIDIA's own text for videos by default"
    )
    resolution: Resolution | None = Field(
        default=None,
        description="NVIDIA's tier, no height: 720p by default, 480p with actions, 768p with Super Text2Image; "
        "768p is for images alone",
    )
    aspect_ratio: AspectRatio | None = Field(
        default=None, description="Of NVIDIA's table; by default the input's nearest, 16:9 from text, 1:1 for images"
    )
    width: int | None = Field(default=None, description="Pixels, with height, in place of a tier")
    height: int | None = Field(default=None, description="Pixels, with width, in place of a tier")
    num_frames: int | None = Field(
        default=None,
        description="Rounded up to 4k+1, as the model has it; 189 by default, with transfer the control's",
    )
    fps: float | None = Field(
        default=None,
        gt=0,
        le=FPS_LIMIT,
        allow_inf_nan=False,
        description="Frames per second; 24 by default, the domain's with actions, the control's with transfer",
    )
    steps: int | None = Field(default=None, ge=1, le=STEPS_LIMIT, description="Denoising steps")
    guidance_scale: float | None = Field(
        default=None, ge=0, le=GUIDANCE_LIMIT, allow_inf_nan=False, description="How closely to follow the prompt"
    )
    flow_shift: float | None = Field(
        default=None, gt=0, le=FLOW_SHIFT_LIMIT, allow_inf_nan=False, description="The scheduler's shift"
    )
    seed: int | None = Field(
        default=None, ge=0, lt=SEED_LIMIT, description="Of the noise; drawn once and recorded if absent"
    )
    sound: bool | None = Field(default=None, description="Make sound too: t2v, i2v and v2v")
    guardrails: bool | None = Field(
        default=None, description="Check prompt and output, blur faces; the pipeline's configuration by default"
    )
    max_sequence_length: int | None = Field(
        default=None,
        ge=1,
        le=SEQUENCE_LIMIT,
        description="Tokens of a prompt with its templates; a longer one is refused, never cut",
    )
    use_resolution_template: bool | None = Field(
        default=None,
        description="Say the size behind the prompt; by default for text, not for JSON, which says it itself",
    )
    use_duration_template: bool | None = Field(
        default=None, description="Say duration and frame rate behind the prompt; by default for text, not for JSON"
    )
    condition_frames: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="v2v: latent frames kept of the input, four frames each after the first; [0, 1] by default",
    )
    condition_keep: Literal["first", "last"] | None = Field(
        default=None, description="v2v: from which end of a longer input; first by default"
    )
    domain_name: str | None = Field(default=None, max_length=64, description="Embodiment of the actions, such as av")
    action_chunk_size: int | None = Field(default=None, ge=1, description="Actions; the video has one frame more")
    raw_action_dim: int | None = Field(default=None, ge=1, description="Numbers of an action; must be the domain's")
    view_point: ViewPoint | None = Field(default=None, description="Where the camera is; ego_view by default")
    action: list[Any] | None = Field(default=None, description="forward_dynamics: rows of numbers, one for each action")
    action_path: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None, description="The same as a JSON file: S3 URI, or the name of a file beside the input"
    )
    controls: Controls | None = Field(
        default=None,
        description="transfer: control videos by edge, blur, depth, seg, wsm, each with path, weight and strength",
    )
    control_guidance: float | None = Field(
        default=None,
        ge=0,
        le=CONTROL_GUIDANCE_LIMIT,
        allow_inf_nan=False,
        description="transfer: how closely to follow the controls",
    )
    frames_per_chunk: int | None = Field(
        default=None, ge=5, description="transfer: frames made at once; 93 by default, 101 for wsm alone"
    )
    upsample_prompt: bool = Field(default=False, description="Let the configured model write NVIDIA's JSON of it first")
    image_format: Literal["png", "jpeg"] = Field(default="png", description="t2i: of the image")
    preview: bool = Field(default=True, description="A small GIF beside a video")
    contact_sheet: bool = Field(default=False, description="An image of frames beside a video")

    def under(self, own: "GenerationParameters") -> "GenerationParameters":
        """With what `own` says in place of what is said here; a size, in whichever way it says it."""
        said = {name: getattr(own, name) for name in own.model_fields_set}
        for one, other in ((_PRESET, _PIXELS), (_PIXELS, _PRESET)):
            if any(said.get(name) is not None for name in one):
                said = {**dict.fromkeys(other), **said}
        return self.model_copy(update=said)


NAMES = {str(field.alias): name for name, field in GenerationParameters.model_fields.items()}
"""Of each parameter, by the name that it has in JSON."""


def is_known(name: str) -> bool:
    """Whether a name means something here: one of ours, or another for it."""
    return own_name(name) in (*NAMES, *ALSO_READ)


_JSON = ("negativePrompt", "action", "controls", "conditionFrames")


def read_generation(said: dict[str, Any]) -> GenerationParameters:
    """Parameters by any of their names, from where all that can be written is text: forms, metadata, options.

    Raises ValidationError, whose paths begin with the parameter's name, and ValueError for names that contradict.
    """
    said = canonical(said)
    parsed = {name: _parsed(said[name]) for name in _JSON if isinstance(said.get(name), str)}
    return GenerationParameters.model_validate({**said, **parsed}, strict=False)


def _parsed(text: str) -> Any:
    """JSON that looks like it; else the text itself."""
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
