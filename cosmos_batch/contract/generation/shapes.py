"""The size that a caller asks for: width and height, a preset, or the input's own shape."""

from cosmos_batch.catalogue.pipelines import Pipeline
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.modes import MODES, Mode
from cosmos_batch.contract.generation.parameters import GenerationParameters
from cosmos_batch.contract.generation.sizes import SIZES, VIDEO_RESOLUTIONS, Resolution, Size, refuse_size, tier_of
from cosmos_batch.contract.tasks import Medium

# The tier that a model makes where nobody names one, if it is not that of its family: 720p, and 480p with actions.
# Why each is as it is, with its source: docs/decisions/042-the-models-own-defaults.md.
_TIER_OF_PIPELINE: dict[str, Resolution] = {"cosmos3-super-text2image": "768p"}


def settle_size(
    said: GenerationParameters, mode: Mode, pipeline: Pipeline, medium: Medium | None, most: Resolution
) -> tuple[Resolution | None, Size | None]:
    """The tier whose shape follows from the input, or a size. Raises Failure where the model makes none such.

    `most` is the largest tier of videos that the pipeline makes.
    """
    if said.width is None and said.height is None:
        return _preset(said, mode, _TIER_OF_PIPELINE.get(pipeline.id), medium, most)
    if said.width is None or said.height is None:
        raise Failure("InvalidInput", "width, height: one of them is missing.", "Say both, or a resolution instead.")
    if said.resolution or said.aspect_ratio:
        raise Failure("InvalidInput", "width, height: stand beside a preset.", "Say either; leave the others out.")
    if MODES[mode].action:
        raise Failure(
            "InvalidInput", f"width, height: {mode} keeps the input's shape.", "Say resolution, such as 480p, instead."
        )
    size = Size(said.width, said.height)
    refuse_size(size, is_video=mode != "t2i")
    _refuse_above("width, height", tier_of_admitted(size), mode, most)
    return None, size


def _preset(
    said: GenerationParameters, mode: Mode, of_pipeline: Resolution | None, medium: Medium | None, most: Resolution
) -> tuple[Resolution, Size | None]:
    is_action = MODES[mode].action
    usual: Resolution = of_pipeline or ("480p" if is_action else "720p")
    lesser: Resolution = usual if mode == "t2i" else min(usual, most, key=VIDEO_RESOLUTIONS.index)
    tier = lesser if said.resolution is None else said.resolution
    _refuse_above("resolution", tier, mode, most)
    if is_action and said.aspect_ratio:
        raise Failure("InvalidInput", f"aspectRatio: {mode} keeps the input's shape.", "Leave aspectRatio out.")
    if is_action or (said.aspect_ratio is None and (medium or mode == "transfer")):
        return tier, None
    return tier, SIZES[tier][said.aspect_ratio or ("1:1" if mode == "t2i" else "16:9")]


def _refuse_above(field: str, tier: Resolution, mode: Mode, most: Resolution) -> None:
    """Images are small beside videos, so that every pipeline makes all of theirs."""
    admitted = VIDEO_RESOLUTIONS[: VIDEO_RESOLUTIONS.index(most) + 1]
    if mode != "t2i" and tier not in admitted:
        problem = "is for images" if tier not in VIDEO_RESOLUTIONS else "is more than this pipeline makes"
        raise Failure("InvalidInput", f"{field}: {tier} {problem}.", f"Use one of: {', '.join(admitted)}.")


def tier_of_admitted(size: Size | None) -> Resolution:
    """The tier of a size that was not refused."""
    tier = tier_of(size) if size else None
    assert tier is not None  # refuse_size has seen it
    return tier
