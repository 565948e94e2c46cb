"""The parameters that a caller may set for one generation, in a request, VAMS, metadata or on the command line."""

from typing import Annotated, Any, Literal

from pydantic import Field

from cosmos_batch.catalogue.generation import AspectRatio, Hint, Mode, Resolution, Strength, ViewPoint
from cosmos_batch.contract.base import Model

STEPS_LIMIT, GUIDANCE_LIMIT, FLOW_SHIFT_LIMIT, FPS_LIMIT = 200, 20, 20, 60
CONTROL_GUIDANCE_LIMIT = 10  # Cosmos Framework's
SEED_LIMIT = 2**32  # NumPy's limit, because one of the engines seeds NumPy with it

# Tokens. vLLM-Omni's default is 4,096 and NVIDIA's prompts have 1,500 to 2,500; the longest text that is admitted,
# PROMPT_LIMIT bytes, has about 8,000.
SEQUENCE_LIMIT = 16_384


class Control(Model):
    """A control video that a transfer follows, and how closely it follows it."""

    path: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None,
        description="S3 URI, or the name of a file beside the input; without it, edge and blur are computed from the "
        "input",
    )
    weight: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False, description="Its share among several")
    strength: Strength = Field(
        default="medium",
        description="How many edges, or how much detail, a computed edge or blur control leaves out",
    )


Controls = dict[Hint, Control]


class GenerationParameters(Model):
    """The parameters of one generation. One that is absent has NVIDIA's value for the mode."""

    mode: Mode | None = Field(default=None, description="What to generate; by default as the input suggests")
    negative_prompt: str | dict[str, Any] | None = Field(
        default=None, description="What not to make, as text or JSON; NVIDIA's own text for videos by default"
    )
    resolution: Resolution | None = Field(
        default=None,
        description="NVIDIA's tier, no height: 720p by default, 480p with actions, 768p with Super Text2Image; "
        "768p is for images alone",
    )
    aspect_ratio: AspectRatio | None = Field(
        default=None,
        description="Shape of NVIDIA's table; by default the nearest to the input, 16:9 from text, 1:1 for images",
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
        description="Most tokens of a prompt with its templates; a longer one is refused, never cut",
    )
    use_resolution_template: bool | None = Field(
        default=None,
        description="Append the size to the prompt; by default to text, not to JSON, which contains it",
    )
    use_duration_template: bool | None = Field(
        default=None, description="Append duration and frame rate to the prompt; by default to text, not to JSON"
    )
    condition_frames: list[Annotated[int, Field(ge=0)]] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="v2v: latent frames of the input to keep, four frames each after the first; [0, 1] by default",
    )
    condition_keep: Literal["first", "last"] | None = Field(
        default=None, description="v2v: the end of a longer input from which frames are kept; first by default"
    )
    domain_name: str | None = Field(default=None, max_length=64, description="Embodiment of the actions, such as av")
    action_chunk_size: int | None = Field(default=None, ge=1, description="Actions; the video has one frame more")
    raw_action_dim: int | None = Field(
        default=None, ge=1, description="How many numbers an action has; must be the domain's"
    )
    view_point: ViewPoint | None = Field(default=None, description="Position of the camera; ego_view by default")
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
        default=None, ge=5, description="transfer: frames generated at once; 93 by default, 101 with wsm alone"
    )
    upsample_prompt: bool = Field(
        default=False, description="Let the configured model rewrite the prompt as NVIDIA's JSON first"
    )
    image_format: Literal["png", "jpeg"] = Field(default="png", description="t2i: format of the image")
    preview: bool = Field(default=True, description="Write a small GIF beside a video")
    contact_sheet: bool = Field(default=False, description="Write an image with frames of a video beside it")

    def overridden_by(self, other: "GenerationParameters") -> "GenerationParameters":
        """Return these parameters with those that `other` sets in their place.

        A size in `other` replaces a size here, whether either is a tier or pixels.
        """
        values = {name: getattr(other, name) for name in other.model_fields_set}
        for fields, alternative in ((_SIZE_AS_TIER, _SIZE_IN_PIXELS), (_SIZE_IN_PIXELS, _SIZE_AS_TIER)):
            if any(values.get(name) is not None for name in fields):
                values = {**dict.fromkeys(alternative), **values}
        return self.model_copy(update=values)


# A request sets the size in one of these two ways.
_SIZE_AS_TIER, _SIZE_IN_PIXELS = ("resolution", "aspect_ratio"), ("width", "height")

NAMES = {str(field.alias): name for name, field in GenerationParameters.model_fields.items()}
"""The attribute of each parameter by its name in JSON."""
