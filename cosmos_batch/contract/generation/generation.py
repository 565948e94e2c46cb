"""A settled generation: every value that an engine needs, with nothing left to decide."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cosmos_batch.catalogue.generation import FRAME_STEP, MODES, SIZE_STEP, Mode, Resolution, Size
from cosmos_batch.contract.base import Model
from cosmos_batch.contract.generation.actions import ActionSettings
from cosmos_batch.contract.generation.parameters import Controls


class Conditioning(Model):
    """The frames of the input video that a `v2v` generation keeps."""

    frames: list[int] = Field(
        min_length=1, description="Latent frames: 0 is the first frame, each further one stands for four frames"
    )
    keep: Literal["first", "last"] = Field(description="From which end of a longer input they are taken")


class Transfer(Model):
    """Settings of a `transfer` generation."""

    controls: Controls = Field(min_length=1, description="In the model's order")
    control_guidance: float = Field(ge=0)
    frames_per_chunk: int = Field(ge=5, description="4k+1")

    def chunks(self, frames: int) -> int:
        """Return how many chunks a video of `frames` takes; each repeats the last frame of the one before it."""
        further = max(0, frames - self.frames_per_chunk)
        return 1 + -(-further // (self.frames_per_chunk - 1))


class Generation(Model):
    """A settled generation, in names and units that do not depend on the engine."""

    mode: Mode
    prompt: str = Field(description="Text, or NVIDIA's structured JSON as text")
    upsample_prompt: bool = Field(
        default=False, description="Let the configured model rewrite the prompt as NVIDIA's JSON first"
    )
    given_prompt: str | None = Field(
        default=None, description="The caller's own prompt, if a model has rewritten it as `prompt`"
    )
    negative_prompt: str = Field(description="Always sent to the engine, even if it is empty")
    resolution: Resolution | None = Field(
        description="The tier whose size nearest to the input's shape is used; None if width and height are set"
    )
    width: int | None = Field(
        default=None, gt=0, multiple_of=SIZE_STEP, description="Pixels; None until the input has been decoded"
    )
    height: int | None = Field(
        default=None, gt=0, multiple_of=SIZE_STEP, description="Pixels; None until the input has been decoded"
    )
    num_frames: int | None = Field(ge=1, description="4k+1; None until the control videos have been decoded")
    fps: float | None = Field(gt=0, description="Frames per second; None until the control videos have been decoded")
    distilled: bool = Field(
        default=False, description="Whether the model is distilled: steps are fixed, and it has no guidance"
    )
    steps: int = Field(ge=1)
    guidance_scale: float = Field(ge=0)
    flow_shift: float = Field(gt=0, description="1 for a distilled model, which shifts nothing")
    seed: int = Field(ge=0)
    sound: bool
    guardrails: bool
    max_sequence_length: int | None = Field(description="Most tokens of a prompt; None: as many as the prompts have")
    use_system_prompt: bool = Field(default=True, description="Never applies to modes with actions")
    use_resolution_template: bool
    use_duration_template: bool
    conditioning: Conditioning | None = None
    action: ActionSettings | None = None
    transfer: Transfer | None = None
    image_format: Literal["png", "jpeg"] = "png"
    preview: bool = Field(default=True, description="Whether to write a GIF beside a video")
    contact_sheet: bool = False
    notes: list[str] = Field(default_factory=list, description="Differences between the request and the result")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        """Raise ValueError for a combination that the mode cannot have; engines rely on it."""
        rules = MODES[self.mode]
        if self.num_frames is not None and self.num_frames % FRAME_STEP != 1:
            raise ValueError(f"numFrames: {self.num_frames} is not 4k+1")
        if self.sound and not rules.sound:
            raise ValueError(f"sound: {self.mode} generates none")
        for part, expected in (
            ("conditioning", self.mode == "v2v"),
            ("action", rules.action),
            ("transfer", self.mode == "transfer"),
        ):
            if (getattr(self, part) is not None) != expected:
                raise ValueError(f"{part}: {'is missing' if expected else f'does not belong to {self.mode}'}")
        if self.resolution is None and self.size is None:
            raise ValueError("width, height: are missing, and so is resolution")
        if self.mode != "transfer" and (self.num_frames is None or self.fps is None):
            raise ValueError("numFrames, fps: are missing; only a transfer takes them from its control videos")
        return self

    @property
    def size(self) -> Size | None:
        """Return the size in pixels; None if it depends on an input that has not been decoded yet."""
        return None if self.width is None or self.height is None else Size(self.width, self.height)

    @property
    def is_video(self) -> bool:
        """Return whether the result is a video, not an image."""
        return self.mode != "t2i"

    @property
    def guidance_interval(self) -> tuple[float, float] | None:
        """Return the timesteps, counted down from 1000, in which guidance applies; None if it applies in all."""
        return MODES[self.mode].guidance_interval

    @property
    def scheduler(self) -> str:
        """Return the name of the scheduler that denoises it."""
        return "FlowMatchEuler" if self.distilled else "UniPC"

    @property
    def total_steps(self) -> int:
        """Return the number of denoising steps of all chunks together."""
        return self.steps * (self.transfer.chunks(self.num_frames) if self.transfer and self.num_frames else 1)

    @property
    def guided(self) -> bool:
        """Return whether each step also runs the model for the negative prompt."""
        return self.guidance_scale != 1.0
