"""One generation with nothing left to decide: what every engine is given."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.generation.actions import ViewPoint
from cosmos_batch.contract.generation.controls import (
    Controls,
    Hint,
    may_be_made_of,
    settle_control_frames,
    shortened_note,
)
from cosmos_batch.contract.generation.modes import MODES, Mode
from cosmos_batch.contract.generation.sizes import FRAME_STEP, STEP, Resolution, Size, nearest_size


class Conditioning(Model):
    """v2v: what is kept of the input video."""

    frames: list[int] = Field(min_length=1, description="Latent frames: 0 is the first frame, each other four frames")
    keep: Literal["first", "last"] = Field(description="From which end of a longer input")


class ActionSettings(Model):
    """Of forward dynamics, inverse dynamics and policy."""

    domain_name: str
    width: int = Field(ge=1, description="Numbers of an action")
    chunk_size: int = Field(ge=FRAME_STEP, multiple_of=FRAME_STEP, description="Actions")
    view_point: ViewPoint
    actions: list[list[float]] | None = Field(
        default=None, description="Of forward dynamics, if they came with the job"
    )
    path: str | None = Field(default=None, description="Where else they lie; checked when they are read")


class Transfer(Model):
    """Of transfer."""

    controls: Controls = Field(min_length=1, description="In the model's order")
    control_guidance: float = Field(ge=0)
    frames_per_chunk: int = Field(ge=5, description="4k+1")

    def chunks(self, frames: int) -> int:
        """How many it takes to make so many frames: each begins with the last frame of the one before."""
        further = max(0, frames - self.frames_per_chunk)
        return 1 + -(-further // (self.frames_per_chunk - 1))


class Generation(Model):
    """What to make, by the names and units of no one engine."""

    mode: Mode
    prompt: str = Field(description="Text, or NVIDIA's JSON as text")
    upsample_prompt: bool = Field(default=False, description="Let the configured model write NVIDIA's JSON of it first")
    given_prompt: str | None = Field(default=None, description="As the caller wrote it, where a model wrote the other")
    negative_prompt: str = Field(description="Always sent, an empty one too")
    resolution: Resolution | None = Field(description="Tier whose size nearest to the input is meant; None: as below")
    width: int | None = Field(default=None, gt=0, multiple_of=STEP, description="Pixels; None until the input is seen")
    height: int | None = Field(default=None, gt=0, multiple_of=STEP, description="Pixels; None until the input is seen")
    num_frames: int | None = Field(ge=1, description="4k+1; None until the control videos are seen")
    fps: float | None = Field(gt=0, description="None until the control videos are seen")
    steps: int = Field(ge=1)
    guidance_scale: float = Field(ge=0)
    flow_shift: float = Field(gt=0)
    seed: int = Field(ge=0)
    sound: bool
    guardrails: bool
    max_sequence_length: int | None = Field(description="Tokens with room in the model; None: as many as there are")
    use_resolution_template: bool
    use_duration_template: bool
    conditioning: Conditioning | None = None
    action: ActionSettings | None = None
    transfer: Transfer | None = None
    image_format: Literal["png", "jpeg"] = "png"
    preview: bool = Field(default=True, description="A GIF beside a video")
    contact_sheet: bool = False
    notes: list[str] = Field(default_factory=list, description="What differs from what was asked for")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """The last check before an engine: whoever made it, it is one that a mode can have."""
        rules = MODES[self.mode]
        if self.num_frames is not None and self.num_frames % FRAME_STEP != 1:
            raise ValueError(f"numFrames: {self.num_frames} is not 4k+1")
        if self.sound and not rules.sound:
            raise ValueError(f"sound: {self.mode} makes none")
        for part, is_due in (
            ("conditioning", self.mode == "v2v"),
            ("action", rules.action),
            ("transfer", self.mode == "transfer"),
        ):
            if (getattr(self, part) is not None) != is_due:
                raise ValueError(f"{part}: {'is missing' if is_due else f'is nothing of {self.mode}'}")
        if self.resolution is None and self.size is None:
            raise ValueError("width, height: are missing, and resolution too")
        if self.mode != "transfer" and (self.num_frames is None or self.fps is None):
            raise ValueError("numFrames, fps: only control videos say them later")
        return self

    @property
    def size(self) -> Size | None:
        """None where it follows from the input, which is not seen yet."""
        return None if self.width is None or self.height is None else Size(self.width, self.height)

    @property
    def is_video(self) -> bool:
        return self.mode != "t2i"

    @property
    def guidance_interval(self) -> tuple[float, float] | None:
        """Timesteps, of 1000 at the start, in which there is guidance; None: in all of them."""
        return MODES[self.mode].guidance_interval

    @property
    def steps_in_all(self) -> int:
        """Those of all chunks."""
        return self.steps * (self.transfer.chunks(self.num_frames) if self.transfer and self.num_frames else 1)

    @property
    def guided(self) -> bool:
        """Whether each step runs the model for the negative prompt too."""
        return self.guidance_scale != 1.0

    def fitted(self, width: int, height: int) -> Self:
        """With the size for an input of this width and height. An action's is the engine's own: it pads the input."""
        if self.size is not None or self.resolution is None or self.action is not None:
            return self
        size = nearest_size(self.resolution, width, height)
        return self.model_copy(update={"width": size.width, "height": size.height})

    def following(self, frames: dict[Hint, int], fps: float) -> Self:
        """This transfer with frames and frame rate of its control videos. Raises Failure where these do not fit.

        A result that is shorter than was asked for, or than the control videos, says so in its notes.
        """
        count = settle_control_frames(self.num_frames, frames)
        note = shortened_note(self.num_frames, frames, count)
        return self.model_copy(
            update={
                "num_frames": count,
                "fps": fps if self.fps is None else self.fps,
                "notes": [*self.notes, *([note] if note else [])],
            }
        )

    def may_have_frames(self, made: int | None) -> bool:
        """Whether a result of this generation may have so many frames."""
        if self.num_frames is None:
            return True
        if self.transfer and made is not None:
            return may_be_made_of(self.num_frames, made)
        return made == self.num_frames
