"""Settle the size, aspect ratio and number of frames of a generation, and refuse those that the model lacks."""

from cosmos_batch.catalogue.formats import Medium
from cosmos_batch.catalogue.generation import (
    FEWEST_RECOMMENDED_FRAMES,
    FRAME_LIMIT,
    LONGEST_SIDE,
    MODES,
    SHORTEST_SIDE,
    SHORTEST_VIDEO,
    SIZE_STEP,
    SIZES,
    TRANSFER_FRAME_LIMIT,
    VIDEO_RESOLUTIONS,
    Mode,
    Resolution,
    Size,
    nearest_size,
    round_up_frames,
    tier_of,
)
from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.generation.parameters import GenerationParameters


def settle_size(
    parameters: GenerationParameters, mode: Mode, pipeline: Pipeline, medium: Medium | None, largest: Resolution
) -> tuple[Resolution | None, Size | None]:
    """Return the tier and size of a generation. The size is None if it depends on the shape of the input.

    `largest` is the pipeline's largest tier of videos. The tier is None if the request sets width and height.
    Raises Failure (InvalidInput) for a size that the model or the pipeline cannot generate.
    """
    width, height = parameters.width, parameters.height
    if width is None and height is None:
        return _settle_tier(parameters, mode, pipeline, medium, largest)
    if width is None or height is None:
        raise Failure("InvalidInput", "width, height: one of them is missing.", "Set both, or a resolution instead.")
    if parameters.resolution or parameters.aspect_ratio:
        raise Failure(
            "InvalidInput",
            "width, height: cannot be combined with resolution or aspectRatio.",
            "Set the size in one of the two ways.",
        )
    if MODES[mode].action:
        raise Failure(
            "InvalidInput", f"width, height: {mode} keeps the input's shape.", "Set resolution, such as 480p, instead."
        )
    size = Size(width, height)
    refuse_size(size, is_video=mode != "t2i")
    _refuse_tier_above("width, height", tier_of_admitted(size), mode, largest)
    return None, size


def _settle_tier(
    parameters: GenerationParameters, mode: Mode, pipeline: Pipeline, medium: Medium | None, largest: Resolution
) -> tuple[Resolution, Size | None]:
    is_action = MODES[mode].action
    tier = parameters.resolution or _default_tier(mode, pipeline, largest)
    _refuse_tier_above("resolution", tier, mode, largest)
    if is_action and parameters.aspect_ratio:
        raise Failure("InvalidInput", f"aspectRatio: {mode} keeps the input's shape.", "Leave aspectRatio out.")
    follows_input = is_action or (parameters.aspect_ratio is None and (medium or mode == "transfer"))
    if follows_input:
        return tier, None
    return tier, SIZES[tier][parameters.aspect_ratio or ("1:1" if mode == "t2i" else "16:9")]


def _default_tier(mode: Mode, pipeline: Pipeline, largest: Resolution) -> Resolution:
    tier = pipeline.default_tier or ("480p" if MODES[mode].action else "720p")
    return tier if mode == "t2i" else min(tier, largest, key=VIDEO_RESOLUTIONS.index)


def _refuse_tier_above(field: str, tier: Resolution, mode: Mode, largest: Resolution) -> None:
    """Raise Failure for a video of a larger tier. Images need little memory, so every pipeline admits all of theirs."""
    admitted = VIDEO_RESOLUTIONS[: VIDEO_RESOLUTIONS.index(largest) + 1]
    if mode != "t2i" and tier not in admitted:
        problem = "is for images only" if tier not in VIDEO_RESOLUTIONS else "is larger than this pipeline admits"
        raise Failure("InvalidInput", f"{field}: {tier} {problem}.", f"Use one of: {', '.join(admitted)}.")


def tier_of_admitted(size: Size | None) -> Resolution:
    """Return the tier of a size that `settle_size` has admitted."""
    tier = tier_of(size) if size else None
    assert tier is not None, "settle_size refuses sizes above all tiers"
    return tier


def refuse_size(size: Size, is_video: bool) -> None:
    """Raise Failure if the model cannot generate this size."""
    if size.width % SIZE_STEP or size.height % SIZE_STEP:
        nearest = Size(*(max(SHORTEST_SIDE, round(side / SIZE_STEP) * SIZE_STEP) for side in size))
        raise Failure(
            "InvalidInput",
            f"width, height: {size} are not multiples of {SIZE_STEP}.",
            f"Use {nearest}, or a tier: resolution {', '.join(VIDEO_RESOLUTIONS)} with an aspectRatio.",
        )
    tier = tier_of(size)
    is_outside = min(size) < SHORTEST_SIDE or max(size) > LONGEST_SIDE or tier is None
    if is_outside or (is_video and tier not in VIDEO_RESOLUTIONS):
        largest = SIZES["720p" if is_video else "768p"]
        raise Failure(
            "InvalidInput",
            f"width, height: {size} is outside of what the model was trained for.",
            f"Use sides of {SHORTEST_SIDE} to {LONGEST_SIDE} pixels, and at most as many pixels as {largest['16:9']} "
            f"or {largest['1:1']}.",
        )


def settle_frames(requested: int | None, mode: Mode, tier: Resolution, pipeline: Pipeline) -> int | None:
    """Return the number of frames, rounded up to 4k+1; None for a transfer that follows its control videos.

    Raises Failure (InvalidInput) for a number that the model cannot generate at this tier.
    """
    if mode == "t2i":
        if requested not in (None, 1):
            raise Failure(
                "InvalidInput",
                f"numFrames: is {requested:,}, and an image has one frame.",
                "Leave it out, or use mode t2v.",
            )
        return 1
    if mode == "transfer":  # generated chunk by chunk, so that its length does not depend on a GPU's memory
        if requested is not None and not 2 <= requested <= TRANSFER_FRAME_LIMIT:
            raise Failure(
                "InvalidInput",
                f"numFrames: {requested:,} is not possible.",
                f"Use {SHORTEST_VIDEO} to {TRANSFER_FRAME_LIMIT:,}.",
            )
        return None if requested is None else round_up_frames(requested)
    frames = pipeline.rules(mode).frames if requested is None else requested
    refuse_frames(frames, tier)
    return round_up_frames(frames)


def notes_on_short_video(frames: int) -> list[str]:
    """Return a note if a video has fewer frames than NVIDIA recommends; none for an image, which is one frame."""
    if not 1 < frames < FEWEST_RECOMMENDED_FRAMES:
        return []
    return [
        f"The video has {frames} frames. NVIDIA recommends at least {FEWEST_RECOMMENDED_FRAMES}, "
        "because the quality may be lower with fewer."
    ]


def refuse_frames(frames: int, tier: Resolution, field: str = "numFrames") -> None:
    """Raise Failure if the model cannot generate a video with this number of frames at this tier.

    `field` is the request's field that the error names.
    """
    limit = FRAME_LIMIT[tier]
    if frames < 2 or round_up_frames(frames) > limit:
        raise Failure(
            "InvalidInput",
            f"{field}: {frames:,} is not possible at {tier}.",
            f"Use {SHORTEST_VIDEO} to {limit}; the model was trained on 24 or more. Mode t2i generates one image.",
        )


def fit_to_input(generation: Generation, width: int, height: int) -> Generation:
    """Return the generation with the size of its tier that is nearest in shape to an input of this width and height.

    A size that is already set stays. With actions it stays open, because the engines choose it by padding the input.
    """
    if generation.size is not None or generation.resolution is None or generation.action is not None:
        return generation
    size = nearest_size(generation.resolution, width, height)
    return generation.model_copy(update={"width": size.width, "height": size.height})
