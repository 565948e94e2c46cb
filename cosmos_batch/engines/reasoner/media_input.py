"""Decoding a job's files for a model: sampled in time, and scaled to the prompt tokens that are left for them."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from cosmos_batch.catalogue.seen_media import DEFAULT_FPS, MAX_FRAMES, MIN_FRAMES
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.job import Job
from cosmos_batch.engines.journal import Journal
from cosmos_batch.media import Clip, ImageInfo, VideoInfo, label_failures, probe, read_image, sample_frames
from cosmos_batch.planning.questions import refuse_cut_of_image
from cosmos_batch.planning.size_limits import TOKENS_PER_TIMESTAMP, SizeLimits

DecodedMedia = Image.Image | Clip
"""The pixels that the model gets of one file: a scaled image, or sampled frames."""

FileInfo = ImageInfo | VideoInfo
"""The properties of one file that its headers give, without decoding it."""


@dataclass(frozen=True)
class MediaLimits(SizeLimits):
    """The sizes of images and videos that a checkpoint's processors accept."""

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Read the limits from a checkpoint's files, without a library."""
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
    def from_processor(cls, processor: Any) -> Self:
        """Read the limits from a processor that transformers has loaded."""
        image, video = processor.image_processor, processor.video_processor
        return cls(
            multiple=image.patch_size * image.merge_size,
            image_pixels=image.size["longest_edge"],
            video_pixels=video.size["longest_edge"],
            frames_per_token=video.temporal_patch_size,
            min_frames=video.min_frames,
            max_frames=video.max_frames,
        )

    def unlimited_pixels(self, job: Job, info: FileInfo) -> int:
        """Estimate the pixels that the model would see of a file without a limit on tokens."""
        frames = 1
        if isinstance(info, VideoInfo):
            sampled = int(info.timeline.duration * (job.parameters.fps or DEFAULT_FPS))
            frames = min(sampled, len(info.timeline.times), self.max_frames)
        return info.width * info.height * frames

    def tokens(self, media: DecodedMedia) -> int:
        """Return an upper bound of the prompt tokens for an image or clip, with markers and timestamps."""
        if isinstance(media, Image.Image):
            return media.width * media.height // self.multiple**2 + TOKENS_PER_TIMESTAMP
        count, height, width, _ = media.frames.shape
        groups = -(-count // self.frames_per_token)
        return int(groups * (height * width // self.multiple**2 + TOKENS_PER_TIMESTAMP))


def media_notes(job: Job, media: list[DecodedMedia]) -> list[str]:
    """Return the document's notes on what the model did not see of the files, such as frames that were left out."""
    clips = [(source, medium) for source, medium in zip(job.inputs, media, strict=True) if isinstance(medium, Clip)]
    return [job.label(source) + note for source, clip in clips for note in clip.notes]


def frame_times(media: list[DecodedMedia]) -> list[float]:
    """Return the times of the frames that the model sees of the first clip, in seconds; nothing if there is no clip."""
    clip = next((medium for medium in media if isinstance(medium, Clip)), None)
    return [] if clip is None else [round(index / clip.fps, 3) for index in dict.fromkeys(clip.indices)]


def probe_inputs(job: Job, paths: list[Path]) -> list[FileInfo]:
    """Read the headers of a job's files. Raises Failure (InvalidInput)."""
    infos = []
    for source, path in zip(job.inputs, paths, strict=True):
        with label_failures(job.label(source)):
            infos.append(probe(path))
    if all(isinstance(info, ImageInfo) for info in infos):  # also where a name says that it is a video
        refuse_cut_of_image(job.parameters, "image")
    return infos


def decode_inputs(
    limits: MediaLimits,
    job: Job,
    paths: list[Path],
    infos: list[FileInfo],
    tokens: int,
    check: Callable[[], None],
    journal: Journal,
    on_gpu: bool = False,
) -> list[DecodedMedia]:
    """Decode a job's files so that together they take at most `tokens` of the prompt.

    Each file has an equal share. What small files leave of theirs goes to the larger ones. Raises Failure
    (InvalidInput) where a file cannot be decoded.

    Parameters
    ----------
    infos
        What `probe_inputs` returned.
    check
        Called after each frame; an exception that it raises ends the work.
    on_gpu
        Whether the GPU decodes large videos.
    """
    decoded: dict[int, DecodedMedia] = {}
    by_size = sorted(range(len(infos)), key=lambda number: limits.unlimited_pixels(job, infos[number]))
    for count, number in enumerate(by_size):
        label = job.label(job.inputs[number])
        with label_failures(label):
            share = tokens // (len(infos) - count)
            medium = _decode(limits, job, paths[number], infos[number], share, check, on_gpu)
        decoded[number], tokens = medium, tokens - limits.tokens(medium)
        journal.note(label + _describe(infos[number], medium))
    in_order = [decoded[number] for number in range(len(infos))]
    for line in media_notes(job, in_order):
        journal.note(line)
    return in_order


def _decode(
    limits: MediaLimits, job: Job, path: Path, info: FileInfo, tokens: int, check: Callable[[], None], on_gpu: bool
) -> DecodedMedia:
    if isinstance(info, ImageInfo):
        return read_image(path, limits.image_budget(tokens))
    pairs = limits.most_pairs(tokens)
    clip = sample_frames(
        path,
        info,
        job.parameters.fps or DEFAULT_FPS,
        limits.video_budget(tokens - pairs * TOKENS_PER_TIMESTAMP),
        start=job.parameters.start,
        end=job.parameters.end,
        min_frames=limits.min_frames,
        max_frames=2 * pairs,
        may_thin=job.parameters.long_video == "sampleDown",
        check=check,
        on_gpu=on_gpu,
    )
    return _with_enough_frames(clip, limits.frames_per_token)


def _with_enough_frames(clip: Clip, count: int) -> Clip:
    """Return the clip with its last frame repeated up to `count` frames, fewer of which processors refuse."""
    missing = count - len(clip.frames)
    if missing <= 0:
        return clip
    frames = np.concatenate([clip.frames, np.repeat(clip.frames[-1:], missing, axis=0)])
    return replace(clip, frames=frames, indices=[*clip.indices, *[clip.indices[-1]] * missing])


def _describe(info: FileInfo, media: DecodedMedia) -> str:
    if isinstance(media, Image.Image):
        return f"image: {info.width} x {info.height}, seen at {media.width} x {media.height}"
    assert isinstance(info, VideoInfo), "an image is not decoded to a clip"
    count, height, width, _ = media.frames.shape
    return (
        f"video: {info.codec}, {info.width} x {info.height}, {media.duration:.1f} s, "
        f"{counted(media.source_frames, 'frame')}; seen: {counted(count, 'frame')} of {width} x {height}"
    )
