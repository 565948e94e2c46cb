"""Fits the frames of an uploaded file into a budget of pixels, or refuses a shape that a reasoner does not accept."""

from cosmos_batch.catalogue.pixel_budget import PixelBudget, fitted_size
from cosmos_batch.media.errors import unusable_file

ASPECT_RATIO_LIMIT = 200  # Qwen3-VL refuses frames with a longer side than this many times the shorter


def fit(width: int, height: int, frames: int, budget: PixelBudget) -> tuple[int, int]:
    """Return the `fitted_size` of frames. Raises Failure (InvalidInput) where the aspect ratio is over the limit."""
    if max(width, height) > ASPECT_RATIO_LIMIT * min(width, height):
        raise unusable_file(
            f"The picture is {width} x {height}: one side is more than {ASPECT_RATIO_LIMIT} times the other.",
            "Crop it or cut it into parts that are less narrow.",
        )
    return fitted_size(width, height, frames, budget)
