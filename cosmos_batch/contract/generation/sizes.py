"""Widths, heights and numbers of frames that Cosmos 3 was made for.

The table is NVIDIA's: `IMAGE_RES_SIZE_INFO` and `VIDEO_RES_SIZE_INFO` in `cosmos_framework/data/generator/utils.py`,
and "Resolution tiers" in its docs/inference.md; the limits of frames are in its docs/faq.md
(NVIDIA/cosmos-framework at 5eee9ed). A tier is no height: 256p at 16:9 is 320x192.
"""

import math
from typing import Literal, NamedTuple, get_args

from cosmos_batch.contract.error import Failure

Resolution = Literal["256p", "480p", "720p", "768p"]
AspectRatio = Literal["1:1", "4:3", "3:4", "16:9", "9:16"]


class Size(NamedTuple):
    """Of a frame, in pixels."""

    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def area(self) -> int:
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
RATIOS = get_args(AspectRatio)

# NVIDIA trained no video above 720p; 768p is for the images of Super.
VIDEO_RESOLUTIONS: tuple[Resolution, ...] = ("256p", "480p", "720p")

STEP = 16  # the VAE's, spatially: what is no multiple raises in one engine and is cut without a word in another
FRAME_STEP = 4  # the VAE's, temporally, after the first frame
SIDE_LEAST, SIDE_MOST = 32, 1360
SHORTEST_VIDEO = 1 + FRAME_STEP


def whole_frames(frames: int) -> int:
    """The next 4k+1: so NVIDIA rounds too, where Diffusers cuts."""
    return math.ceil((frames - 1) / FRAME_STEP) * FRAME_STEP + 1


def frames_within(frames: int) -> int:
    """The last 4k+1: of a video that cannot be longer than it is."""
    return (frames - 1) // FRAME_STEP * FRAME_STEP + 1


# NVIDIA's 400, 300 and 200, in frames that the model makes.
FRAME_LIMIT: dict[Resolution, int] = {
    "256p": frames_within(400),
    "480p": frames_within(300),
    "720p": frames_within(200),
}


def tier_of(size: Size) -> Resolution | None:
    """The smallest tier with as many pixels; None for what is larger than all."""
    return next((tier for tier, sizes in SIZES.items() if size.area <= max(one.area for one in sizes.values())), None)


def tier_around(size: Size) -> Resolution:
    """The smallest tier of which a canvas holds the picture; the largest of videos where none does."""
    for tier in VIDEO_RESOLUTIONS:
        if any(size.width <= one.width and size.height <= one.height for one in SIZES[tier].values()):
            return tier
    return VIDEO_RESOLUTIONS[-1]


def nearest_size(tier: Resolution, width: int, height: int) -> Size:
    """Of a tier, the size whose shape is the nearest to a picture's: the least of it is cropped."""
    return min(SIZES[tier].values(), key=lambda size: abs(math.log(size.width / size.height * height / width)))


def is_in_table(size: Size) -> bool:
    """Whether it is one of NVIDIA's."""
    return any(size in sizes.values() for sizes in SIZES.values())


def refuse_size(size: Size, is_video: bool) -> None:
    """Raises Failure where the model cannot make it."""
    if size.width % STEP or size.height % STEP:
        near = Size(*(max(SIDE_LEAST, round(side / STEP) * STEP) for side in size))
        raise Failure(
            "InvalidInput",
            f"width, height: {size} are no multiples of {STEP}.",
            f"Use {near}, or a preset: resolution {', '.join(VIDEO_RESOLUTIONS)} with an aspectRatio.",
        )
    tier = tier_of(size)
    if min(size) < SIDE_LEAST or max(size) > SIDE_MOST or tier is None or (is_video and tier not in VIDEO_RESOLUTIONS):
        largest = SIZES["720p" if is_video else "768p"]
        raise Failure(
            "InvalidInput",
            f"width, height: {size} is not within what the model was made for.",
            f"Use sides of {SIDE_LEAST} to {SIDE_MOST} pixels and as many pixels as {largest['16:9']} or "
            f"{largest['1:1']} at most.",
        )


def refuse_frames(frames: int, tier: Resolution, field: str = "numFrames") -> None:
    """Raises Failure where a video of this tier has no so many frames."""
    limit = FRAME_LIMIT[tier]
    if frames < 2 or whole_frames(frames) > limit:
        raise Failure(
            "InvalidInput",
            f"{field}: {frames:,} is not possible at {tier}.",
            f"Use {SHORTEST_VIDEO} to {limit}; the model was trained on 24 or more. Mode t2i makes one image.",
        )
