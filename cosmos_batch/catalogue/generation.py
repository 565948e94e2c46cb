"""Hold what NVIDIA publishes about the generators of Cosmos 3: modes, sizes, lengths, controls and embodiments.

Sources, where a table names no other:

- Sizes and frame limits: `IMAGE_RES_SIZE_INFO` and `VIDEO_RES_SIZE_INFO` in `cosmos_framework/data/generator/utils.py`,
  "Resolution tiers" in docs/inference.md, and docs/faq.md (NVIDIA/cosmos-framework at 5eee9ed).
- Steps, guidance with its interval, and flow shift: for images vLLM-Omni's (`pipeline_cosmos3.py`, 0.30.0), otherwise
  Cosmos Framework's (`cosmos_framework/inference/defaults/*/sample_args.json` at 5eee9ed).
- Controls: `_TRANSFER_DEFAULTS` in Cosmos Framework's `args.py` at 5eee9ed.
- Embodiments: `EMBODIMENT_TO_DOMAIN_ID` and `EMBODIMENT_TO_RAW_ACTION_DIM` of Cosmos Framework
  (`cosmos_framework/data/generator/action/utils/domain_utils.py` at 5eee9ed).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from cosmos_batch.catalogue.formats import IMAGE_EXTENSIONS, VIDEO_EXTENSIONS, Medium

Mode = Literal["t2i", "t2v", "i2v", "v2v", "transfer", "forward_dynamics", "inverse_dynamics", "policy"]


@dataclass(frozen=True)
class ModeRules:
    """The inputs, abilities and default settings of one mode.

    Attributes
    ----------
    title
        The mode's name for people.
    inputs
        The kinds of file that the mode starts from; empty for modes that start from text.
    input_optional
        Whether the mode also runs without an input file.
    sound
        Whether the mode can generate sound.
    action
        Whether the mode reads or predicts actions.
    guidance_interval
        The timesteps, counted down from 1000, in which guidance applies; None applies it in all of them.
    frames
        The length of a video without `numFrames`.
    system_prompt
        Whether the system prompt precedes the prompt.
    """

    title: str
    inputs: tuple[Medium, ...]
    steps: int
    guidance_scale: float
    flow_shift: float
    input_optional: bool = False
    sound: bool = False
    action: bool = False
    guidance_interval: tuple[float, float] | None = None
    frames: int = 189
    system_prompt: bool = True


MODES: dict[Mode, ModeRules] = {
    "t2i": ModeRules("text to image", (), 50, 7.0, 3.0, guidance_interval=(400.0, 1000.0)),
    "t2v": ModeRules("text to video", (), 35, 6.0, 10.0, sound=True),
    "i2v": ModeRules("image to video", ("image",), 35, 6.0, 10.0, sound=True),
    "v2v": ModeRules("video to video", ("video",), 35, 6.0, 10.0, sound=True),
    "transfer": ModeRules("transfer", ("video",), 35, 3.0, 10.0, input_optional=True),
    "forward_dynamics": ModeRules("forward dynamics", ("image", "video"), 30, 1.0, 10.0, action=True),
    "inverse_dynamics": ModeRules("inverse dynamics", ("video",), 30, 1.0, 10.0, action=True),
    "policy": ModeRules("policy", ("image", "video"), 30, 1.0, 10.0, action=True),
}


def input_extensions(modes: Sequence[Mode]) -> tuple[str, ...]:
    """Return the file extensions that these modes take as input; none if all of them start from text."""
    media = {medium for mode in modes for medium in MODES[mode].inputs}
    return (*(VIDEO_EXTENSIONS if "video" in media else ()), *(IMAGE_EXTENSIONS if "image" in media else ()))


Resolution = Literal["256p", "480p", "720p", "768p"]  # a tier of NVIDIA's, not a height: 256p at 16:9 is 320x192
AspectRatio = Literal["1:1", "4:3", "3:4", "16:9", "9:16"]
ASPECT_RATIOS = get_args(AspectRatio)


class Size(NamedTuple):
    """Width and height of a frame, in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def area(self) -> int:
        """Return the number of pixels."""
        return self.width * self.height


def _tier(square: int, long: int, short: int, wide: int, narrow: int) -> dict[AspectRatio, Size]:
    return {
        "1:1": Size(square, square),
        "4:3": Size(long, short),
        "3:4": Size(short, long),
        "16:9": Size(wide, narrow),
        "9:16": Size(narrow, wide),
    }


SIZES: dict[Resolution, dict[AspectRatio, Size]] = {
    "256p": _tier(256, 320, 256, 320, 192),
    "480p": _tier(640, 736, 544, 832, 480),
    "720p": _tier(960, 1104, 832, 1280, 720),
    "768p": _tier(1024, 1184, 880, 1360, 768),
}

# NVIDIA trained no video above 720p; 768p is for the images of Super.
VIDEO_RESOLUTIONS: tuple[Resolution, ...] = ("256p", "480p", "720p")

# The VAE compresses by 16 in width and height. One engine raises for a side that is no multiple; another cuts it
# silently.
SIZE_STEP = 16
SHORTEST_SIDE, LONGEST_SIDE = 32, 1360

# The VAE compresses time by 4 after the first frame, so every video has 4k+1 frames.
FRAME_STEP = 4
SHORTEST_VIDEO = 1 + FRAME_STEP
DEFAULT_FPS = 24.0
TRAINED_FPS = (10, 30)
FEWEST_RECOMMENDED_FRAMES = 24  # `MIN_NUM_FRAMES` of Cosmos Framework (inference/args.py at 5eee9ed), which warns below


def round_up_frames(frames: int) -> int:
    """Round a number of frames up to the next 4k+1, as NVIDIA does (Diffusers rounds down)."""
    return math.ceil((frames - 1) / FRAME_STEP) * FRAME_STEP + 1


def round_down_frames(frames: int) -> int:
    """Round a number of frames down to 4k+1, for a video that cannot be lengthened."""
    return (frames - 1) // FRAME_STEP * FRAME_STEP + 1


# NVIDIA's limits of 400, 300 and 200 frames, rounded down to 4k+1.
FRAME_LIMIT: dict[Resolution, int] = {
    "256p": round_down_frames(400),
    "480p": round_down_frames(300),
    "720p": round_down_frames(200),
}


def tier_of(size: Size) -> Resolution | None:
    """Return the smallest tier with at least as many pixels as this size; None if all have fewer."""
    return next(
        (tier for tier, sizes in SIZES.items() if size.area <= max(other.area for other in sizes.values())), None
    )


def aspect_ratio_of(size: Size) -> AspectRatio | None:
    """Return the aspect ratio by which NVIDIA's table names a size; None if the size is not in it."""
    return next((ratio for sizes in SIZES.values() for ratio, other in sizes.items() if other == size), None)


def nearest_size(tier: Resolution, width: int, height: int) -> Size:
    """Return the size of a tier whose aspect ratio is the nearest to a picture's, so that the least is cropped."""
    return min(SIZES[tier].values(), key=lambda size: abs(math.log(size.width / size.height * height / width)))


# Kinds of control video, in the order in which the model has them.
Hint = Literal["edge", "blur", "depth", "seg", "wsm"]
HINTS = get_args(Hint)
Strength = Literal["very_low", "low", "medium", "high", "very_high"]

# Edges and blur can be computed from the input; the other controls need a model of their own.
COMPUTED_HINTS: tuple[Hint, ...] = ("edge", "blur")


@dataclass(frozen=True)
class HintDefaults:
    """The default settings of a transfer that follows one kind of control video."""

    control_guidance: float
    frames_per_chunk: int = 93
    guidance_scale: float = MODES["transfer"].guidance_scale


HINT_DEFAULTS: dict[Hint, HintDefaults] = {
    "edge": HintDefaults(control_guidance=1.5),
    "blur": HintDefaults(control_guidance=1.5),
    "depth": HintDefaults(control_guidance=1.5),
    "seg": HintDefaults(control_guidance=2.0),
    "wsm": HintDefaults(control_guidance=3.0, frames_per_chunk=101, guidance_scale=1.0),
}
TRANSFER_FRAME_LIMIT = 5000  # Cosmos Framework's limit for all chunks of a transfer together

# The order is NVIDIA's, because requests of VAMS's own Cosmos 3 pipeline name the first view point by the number 0.
ViewPoint = Literal["ego_view", "third_person_view", "wrist_view", "concat_view"]
VIEW_POINTS = get_args(ViewPoint)


@dataclass(frozen=True)
class Domain:
    """An embodiment: the width of its actions, and the chunk size and frame rate that it was trained with.

    Chunk sizes and frame rates are those of Cosmos Framework's `inputs/omni` and of the action cookbook in
    NVIDIA/cosmos; the defaults are Framework's, for embodiments that neither shows.

    Attributes
    ----------
    widths
        How many numbers an action may have; several where data sets of this embodiment differ.
    chunk_size
        How many actions belong to one video.
    """

    widths: tuple[int, ...]
    chunk_size: int = 16
    fps: float = 24.0


DOMAINS: dict[str, Domain] = {
    "av": Domain((9,), chunk_size=60, fps=10.0),
    "camera_pose": Domain((9,), chunk_size=60, fps=30.0),
    "pusht": Domain((2,)),
    "umi": Domain((10,), fps=20.0),
    "bridge_orig_lerobot": Domain((10,), fps=5.0),
    "droid_lerobot": Domain((10,), fps=15.0),
    "robomind-franka": Domain((10,)),
    "robomind-franka-dual": Domain((20,)),
    "robomind-ur": Domain((10,)),
    "fractal": Domain((10,)),
    "agibotworld": Domain((29,)),
    "agibot_gear_gripper": Domain((29,)),
    "agibot_gear_gripper_ext": Domain((29,)),
    "galbot": Domain((30,)),
    # Framework has no width for it; Diffusers has this one (`_EMBODIMENT_TO_RAW_ACTION_DIM` in
    # `pipeline_cosmos3_omni.py`). Where both have a domain, they agree.
    "hand_pose": Domain((57,)),
    "libero": Domain((7, 10, 13)),  # Framework's table has a width for each `rotation_space`
    "xdof_yam": Domain((20,)),
    "molmoact2_yam": Domain((20,)),
    "abc_yam": Domain((20,)),
    "maniparena": Domain((20,)),
    "robotwin": Domain((14,)),
    "behavior1k_lerobot": Domain((23,)),
    "drawanything": Domain((3,)),
}

# Modes in which an engine is faster and changes the result, or notices less. They are off by default.
LossyMode = Literal["fp8", "fp8Cache", "fp8Attention", "stepCache", "seaCache", "gpuDecode"]
REASONERS_IN_FP8: tuple[LossyMode, ...] = ("fp8", "fp8Cache")  # those of a reasoner for which a GPU computes in FP8
STEP_CACHES: tuple[LossyMode, ...] = ("stepCache", "seaCache")  # those that skip the layers in some steps
