"""What a model sees of a file: decoded once, sampled in time, fitted to the tokens that are left for it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from PIL import Image

from cosmos_batch.contract import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.media import Clip, ImageInfo, PixelBudget, VideoInfo, read_image, sample_frames

# Frames per second of video that the model sees. Cosmos-Reason2 was trained at 4 and its model card asks for the same;
# the processor's own default, 2, is Qwen's.
DEFAULT_FPS = 4.0
# Of Qwen's reference implementation (qwen-vl-utils, VIDEO_MAX_TOKEN_NUM), which NVIDIA's own tool uses.
_TOKENS_PER_FRAME = 768
# Tokens beside its pixels that a pair of frames costs: `<12.3 seconds>` and two markers, rounded up.
_TOKENS_PER_TIMESTAMP = 16
# Of Qwen3-VL's video processor, where a checkpoint's own settings do not say: transformers' class has them.
_MIN_FRAMES, _MAX_FRAMES = 4, 768


@dataclass(frozen=True)
class Sight:
    """What a checkpoint's processors take.

    Attributes
    ----------
    multiple
        Both sides of a frame are multiples of this, in pixels: patch size times merge size.
    image_pixels, video_pixels
        Pixels of one image, and of all frames of a clip together.
    frames_per_token
        A token covers a square of `multiple` pixels in so many frames.
    min_frames, max_frames
        Of a clip.
    """

    multiple: int
    image_pixels: int
    video_pixels: int
    frames_per_token: int = 2
    min_frames: int = _MIN_FRAMES
    max_frames: int = _MAX_FRAMES

    @classmethod
    def of_folder(cls, folder: Path) -> Self:
        """By the files of a checkpoint, with no library."""
        image = json.loads((folder / "preprocessor_config.json").read_text(encoding="utf-8"))
        video = json.loads((folder / "video_preprocessor_config.json").read_text(encoding="utf-8"))
        return cls(
            multiple=image["patch_size"] * image["merge_size"],
            image_pixels=image["size"]["longest_edge"],
            video_pixels=video["size"]["longest_edge"],
            frames_per_token=video["temporal_patch_size"],
            min_frames=video.get("min_frames", _MIN_FRAMES),
            max_frames=video.get("max_frames", _MAX_FRAMES),
        )

    @classmethod
    def of_processor(cls, processor: Any) -> Self:
        """By transformers' loaded processor."""
        image, video = processor.image_processor, processor.video_processor
        return cls(
            multiple=image.patch_size * image.merge_size,
            image_pixels=image.size["longest_edge"],
            video_pixels=video.size["longest_edge"],
            frames_per_token=video.temporal_patch_size,
            min_frames=video.min_frames,
            max_frames=video.max_frames,
        )

    def image_budget(self, tokens: int) -> PixelBudget:
        """What an image may have, where so many tokens are left for it."""
        return PixelBudget(self.image_pixels, self.image_pixels, self.multiple).within(tokens, self.multiple**2)

    def video_budget(self, tokens: int) -> PixelBudget:
        """What a clip may have, its timestamps apart."""
        budget = PixelBudget(self.video_pixels, _TOKENS_PER_FRAME * self.multiple**2, self.multiple)
        return budget.within(tokens, self.multiple**2 * self.frames_per_token)

    def tokens(self, seen: "Seen") -> int:
        """At most so many tokens stand for it in the prompt, its markers and timestamps included."""
        if isinstance(seen, Image.Image):
            return seen.width * seen.height // self.multiple**2 + _TOKENS_PER_TIMESTAMP
        count, height, width, _ = seen.frames.shape
        groups = -(-count // self.frames_per_token)
        return int(groups * (height * width // self.multiple**2 + _TOKENS_PER_TIMESTAMP))


Seen = Image.Image | Clip


def notes_of(seen: Seen) -> list[str]:
    """The `notes` of the answer: what a reader of the document must know of what the model saw."""
    return [seen.note] if isinstance(seen, Clip) and seen.note else []


def see(
    sight: Sight,
    job: Job,
    path: Path,
    found: ImageInfo | VideoInfo,
    tokens: int,
    check: Callable[[], None],
    journal: Journal,
) -> Seen:
    """Decode a probed file once, within `tokens`.

    `check` is called after each frame; what it raises ends the work. Raises Failure (InvalidInput) where the file
    cannot be decoded.
    """
    if isinstance(found, ImageInfo):
        image = read_image(path, sight.image_budget(tokens))
        journal.note(f"image: {found.width} x {found.height}, seen at {image.width} x {image.height}")
        return image
    clip = _sample(sight, job, path, found, tokens, check)
    journal.note(_describe(found, clip))
    if clip.note:
        journal.note(clip.note)
    return clip


def _sample(sight: Sight, job: Job, path: Path, found: VideoInfo, tokens: int, check: Callable[[], None]) -> Clip:
    """Frames of a video; where tokens are few, half of them at most go into timestamps."""
    pairs = min(sight.max_frames // 2, max(1, tokens // (2 * _TOKENS_PER_TIMESTAMP)))
    return sample_frames(
        path,
        found.timeline,
        job.parameters.fps or DEFAULT_FPS,
        sight.video_budget(tokens - pairs * _TOKENS_PER_TIMESTAMP),
        start=job.parameters.start,
        end=job.parameters.end,
        min_frames=sight.min_frames,
        max_frames=2 * pairs,
        may_thin=job.parameters.long_video == "sampleDown",
        check=check,
    )


def _describe(found: VideoInfo, clip: Clip) -> str:
    count, height, width, _ = clip.frames.shape
    return (
        f"video: {found.codec}, {found.width} x {found.height}, {clip.duration:.1f} s, {clip.source_frames:,} frames; "
        f"seen: {count} frames of {width} x {height}"
    )
