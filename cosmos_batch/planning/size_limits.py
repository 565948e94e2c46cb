"""Decide how large a reasoner sees an image or a video, by its processors' limits and the tokens that are left."""

from dataclasses import dataclass

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.catalogue.seen_media import (
    FRAMES_PER_TOKEN,
    MAX_FRAMES,
    MIN_FRAMES,
    MOST_IMAGE_PIXELS,
    MOST_VIDEO_PIXELS,
    TOKEN_SIDE,
    TOKENS_PER_FRAME,
)

# The most tokens that a pair of frames costs beside its pixels: `<12.3 seconds>` and two markers, rounded up. Fewer are
# usual, with which planning/runs/question_work.py estimates.
TOKENS_PER_TIMESTAMP = 16


@dataclass(frozen=True)
class SizeLimits:
    """The sizes of images and videos that a reasoner's processors accept; those of Qwen3-VL by default.

    Attributes
    ----------
    multiple
        Both sides of a frame are multiples of this many pixels: patch size times merge size.
    image_pixels, video_pixels
        The most pixels of one image, and of all frames of a clip together.
    frames_per_token
        Frames that one token covers, in a square of `multiple` pixels.
    min_frames, max_frames
        The fewest and most frames of a clip.
    """

    multiple: int = TOKEN_SIDE
    image_pixels: int = MOST_IMAGE_PIXELS
    video_pixels: int = MOST_VIDEO_PIXELS
    frames_per_token: int = FRAMES_PER_TOKEN
    min_frames: int = MIN_FRAMES
    max_frames: int = MAX_FRAMES

    def image_budget(self, tokens: int) -> PixelBudget:
        """Return the pixels that an image may have if `tokens` are left for it."""
        return PixelBudget(self.image_pixels, self.image_pixels, self.multiple).within(tokens, self.multiple**2)

    def video_budget(self, tokens: int) -> PixelBudget:
        """Return the pixels that a clip may have if `tokens` are left for it beside its timestamps."""
        budget = PixelBudget(self.video_pixels, TOKENS_PER_FRAME * self.multiple**2, self.multiple)
        return budget.within(tokens, self.multiple**2 * self.frames_per_token)

    def most_pairs(self, tokens: int) -> int:
        """Return the most pairs of frames of a clip for which `tokens` are left. Timestamps take at most half of them.

        >>> SizeLimits().most_pairs(28_672), SizeLimits().most_pairs(1_600)
        (384, 50)
        """
        return min(self.max_frames // 2, max(1, tokens // (2 * TOKENS_PER_TIMESTAMP)))
