"""What a model sees of files: decoded once, sampled in time, fitted to the tokens that are left for them."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from PIL import Image

from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.media import Clip, ImageInfo, PixelBudget, VideoInfo, label_failures, probe, read_image, sample_frames

# Frames per second of video that the model sees. Cosmos-Reason2 was trained at 4 and its model card asks for the same;
# the processor's own default, 2, is Qwen's.
DEFAULT_FPS = 4.0
# Of Qwen's reference implementation (qwen-vl-utils, VIDEO_MAX_TOKEN_NUM), which NVIDIA's own tool uses.
TOKENS_PER_FRAME = 768
# Tokens beside its pixels that a pair of frames costs: `<12.3 seconds>` and two markers, rounded up.
_TOKENS_PER_TIMESTAMP = 16
# Of Qwen3-VL's video processor, where a checkpoint's own settings do not say: transformers' class has them.
MIN_FRAMES, MAX_FRAMES = 4, 768


@dataclass(frozen=True)
class MediaLimits:
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
    min_frames: int = MIN_FRAMES
    max_frames: int = MAX_FRAMES

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
            min_frames=video.get("min_frames", MIN_FRAMES),
            max_frames=video.get("max_frames", MAX_FRAMES),
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
        budget = PixelBudget(self.video_pixels, TOKENS_PER_FRAME * self.multiple**2, self.multiple)
        return budget.within(tokens, self.multiple**2 * self.frames_per_token)

    def pixels(self, job: Job, found: ImageInfo | VideoInfo) -> int:
        """What a file would have if there were no budget, about."""
        frames = 1
        if isinstance(found, VideoInfo):
            asked = int(found.timeline.duration * (job.parameters.fps or DEFAULT_FPS))
            frames = min(asked, len(found.timeline.times), self.max_frames)
        return found.width * found.height * frames

    def tokens(self, seen: "Seen") -> int:
        """At most so many tokens stand for it in the prompt, its markers and timestamps included."""
        if isinstance(seen, Image.Image):
            return seen.width * seen.height // self.multiple**2 + _TOKENS_PER_TIMESTAMP
        count, height, width, _ = seen.frames.shape
        groups = -(-count // self.frames_per_token)
        return int(groups * (height * width // self.multiple**2 + _TOKENS_PER_TIMESTAMP))


Seen = Image.Image | Clip


Found = ImageInfo | VideoInfo


def media_notes(job: Job, seen: list[Seen]) -> list[str]:
    """The `notes` of the answer: what a reader of the document must know of what the model saw."""
    named = zip(job.inputs, seen, strict=True)
    return [job.label(source) + note for source, one in named if isinstance(one, Clip) for note in one.notes]


def probe_all(job: Job, paths: list[Path]) -> list[Found]:
    """What the files are. Raises Failure (InvalidInput)."""
    found = []
    for source, path in zip(job.inputs, paths, strict=True):
        with label_failures(job.label(source)):
            found.append(probe(path))
    return found


def see(
    sight: MediaLimits,
    job: Job,
    paths: list[Path],
    found: list[Found],
    tokens: int,
    check: Callable[[], None],
    journal: Journal,
) -> list[Seen]:
    """Decode probed files once, within `tokens` together. What small ones leave of their shares, larger ones have.

    `check` is called after each frame; what it raises ends the work. Raises Failure (InvalidInput) where a file cannot
    be decoded.
    """
    seen: dict[int, Seen] = {}
    by_size = sorted(range(len(found)), key=lambda number: sight.pixels(job, found[number]))
    for served, number in enumerate(by_size):
        label = job.label(job.inputs[number])
        with label_failures(label):
            one = _see(sight, job, paths[number], found[number], tokens // (len(found) - served), check)
        seen[number], tokens = one, tokens - sight.tokens(one)
        journal.note(label + _describe(found[number], one))
    lines = media_notes(job, in_order := [seen[number] for number in range(len(found))])
    for line in lines:
        journal.note(line)
    return in_order


def _see(sight: MediaLimits, job: Job, path: Path, found: Found, tokens: int, check: Callable[[], None]) -> Seen:
    if isinstance(found, ImageInfo):
        return read_image(path, sight.image_budget(tokens))
    return _sample(sight, job, path, found, tokens, check)


def _sample(sight: MediaLimits, job: Job, path: Path, found: VideoInfo, tokens: int, check: Callable[[], None]) -> Clip:
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


def _describe(found: Found, seen: Seen) -> str:
    if isinstance(seen, Image.Image):
        return f"image: {found.width} x {found.height}, seen at {seen.width} x {seen.height}"
    assert isinstance(found, VideoInfo), "of an image there is no clip"
    count, height, width, _ = seen.frames.shape
    return (
        f"video: {found.codec}, {found.width} x {found.height}, {seen.duration:.1f} s, {seen.source_frames:,} frames; "
        f"seen: {count} frames of {width} x {height}"
    )
