"""Compute how large each frame may be so that the whole clip fits into the context of a reasoner.

It computes what Qwen3-VL's processor does (`smart_resize` in transformers), so frames that are scaled to these sizes
during decoding are not scaled again there. An estimate of a run has the same sizes without decoding.
"""

import math
from dataclasses import dataclass

# NVIDIA leaves a tenth of the context for the text around the media (cosmos-reason2, script/inference.py:
# `int((max_model_len - max_tokens) * PIXELS_PER_TOKEN * 0.9)`).
MEDIA_SHARE = 0.9


@dataclass(frozen=True)
class PixelBudget:
    """The number of pixels that a model accepts of one clip or image.

    Attributes
    ----------
    total
        Pixels of all frames together.
    per_frame
        Pixels of one frame.
    multiple
        Both sides of a frame are multiples of this, in pixels: patch size times merge size.
    """

    total: int
    per_frame: int
    multiple: int

    def within(self, tokens: int, pixels_per_token: int) -> "PixelBudget":
        """Return this budget, limited to the pixels that fit into `tokens` tokens of the context.

        By NVIDIA's rule, media fill at most `MEDIA_SHARE` of these tokens.
        """
        total = min(self.total, int(tokens * pixels_per_token * MEDIA_SHARE))
        return PixelBudget(total, min(self.per_frame, total), self.multiple)


def fitted_size(width: int, height: int, frames: int, budget: PixelBudget) -> tuple[int, int]:
    """Return the width and height in pixels at which `frames` frames of this aspect ratio stay within `budget`.

    Both are rounded to the budget's multiple. Frames are never enlarged, except by that rounding.
    """
    limit = max(1, min(budget.per_frame, budget.total // frames))
    fitted_width, fitted_height = (_multiple(round(side / budget.multiple), budget) for side in (width, height))
    if fitted_width * fitted_height <= limit:
        return fitted_width, fitted_height
    shrink = math.sqrt(width * height / limit)
    return (
        _multiple(math.floor(width / shrink / budget.multiple), budget),
        _multiple(math.floor(height / shrink / budget.multiple), budget),
    )


def _multiple(count: int, budget: PixelBudget) -> int:
    return max(1, count) * budget.multiple
