"""Writing the output of a generation as the job's files, with the same names, codec and frame rate for every engine.

The worker checks each file against the job before it delivers any of them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import GeneratedFile
from cosmos_batch.media import (
    ImageInfo,
    Sound,
    exact_rate,
    image_at_size,
    probe,
    rewrite_video,
    upright_size,
    write_actions,
    write_image,
    write_video,
)
from cosmos_batch.media.errors import as_output_failure, unusable_output

VIDEO, ACTIONS = GeneratedFile(name="output.mp4", role="video"), GeneratedFile(name="actions.json", role="actions")


@dataclass(frozen=True)
class GeneratedMedia:
    """An engine's output: frames (RGB, uint8, each [H, W, 3], to be read once), sound, and one row for each action."""

    frames: Iterable[np.ndarray]
    sound: Sound | None = None
    actions: np.ndarray | None = None


def rewrite_files(
    source: Path, actions: np.ndarray | None, generation: Generation, folder: Path, check: Callable[[], None]
) -> list[GeneratedFile]:
    """Write the job's files from an image or video that the engine encoded itself, and from its actions.

    A video is decoded and encoded anew, with as many frames of the same size. `check` is called after each frame,
    and an exception that it raises ends the work. Raises Failure (EngineFailed) if `source` is no image or no video.
    """
    if not generation.is_video:
        with as_output_failure("image"):
            if not isinstance(probe(source), ImageInfo):
                raise unusable_output("a video instead of an image")
            return write_files(
                GeneratedMedia(image_at_size(source, upright_size(source))[None]), generation, folder, check
            )
    assert generation.fps is not None  # `prepare` has settled it
    rewrite_video(source, folder / VIDEO.name, exact_rate(generation.fps), sound=generation.sound, check=check)
    return [VIDEO, *_write_actions(actions, folder)]


def write_files(
    media: GeneratedMedia, generation: Generation, folder: Path, check: Callable[[], None]
) -> list[GeneratedFile]:
    """Write what an engine generated into the job's folder, and return the files.

    `check` is called after each frame; an exception that it raises ends the work. Raises Failure (EngineFailed) if the
    arrays have shapes or values that are no pictures, sound or actions.
    """
    if not generation.is_video:
        image = GeneratedFile(name="output.png" if generation.image_format == "png" else "output.jpg", role="image")
        write_image(folder / image.name, next(iter(media.frames)))
        return [image]
    assert generation.fps is not None  # `prepare` has settled it
    write_video(folder / VIDEO.name, media.frames, exact_rate(generation.fps), media.sound, check)
    return [VIDEO, *_write_actions(media.actions, folder)]


def _write_actions(actions: np.ndarray | None, folder: Path) -> list[GeneratedFile]:
    if actions is None:
        return []
    write_actions(folder / ACTIONS.name, actions)
    return [ACTIONS]
