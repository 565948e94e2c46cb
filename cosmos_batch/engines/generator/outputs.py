"""What a generator made as files. The worker looks at them before anybody gets them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.contract.result import MadeFile
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

VIDEO, ACTIONS = MadeFile(name="output.mp4", role="video"), MadeFile(name="actions.json", role="actions")


@dataclass(frozen=True)
class GeneratedMedia:
    """By an engine: frames (RGB, uint8, [T, H, W, 3]), and what came with them."""

    frames: np.ndarray
    sound: Sound | None = None
    actions: np.ndarray | None = None


def rewrite_files(
    source: Path, actions: np.ndarray | None, asked: Generation, folder: Path, check: Callable[[], None]
) -> list[MadeFile]:
    """The same of a file that an engine wrote itself: an image, or a video whose frames and sound are kept as they are.

    Raises Failure (EngineFailed) where it is none.
    """
    if not asked.is_video:
        with as_output_failure("image"):
            if not isinstance(probe(source), ImageInfo):
                raise unusable_output("a video; an image was asked for")
            return write_files(GeneratedMedia(image_at_size(source, upright_size(source))[None]), asked, folder, check)
    assert asked.fps is not None  # of transfer alone it was open
    rewrite_video(source, folder / VIDEO.name, exact_rate(asked.fps), sound=asked.sound, check=check)
    return [VIDEO, *_write_actions(actions, folder)]


def write_files(rendered: GeneratedMedia, asked: Generation, folder: Path, check: Callable[[], None]) -> list[MadeFile]:
    """Write them into a job's folder; `check` is called after each frame, and what it raises ends it.

    Raises Failure (EngineFailed) where they are no pictures, sound or actions.
    """
    if not asked.is_video:
        image = MadeFile(name="output.png" if asked.image_format == "png" else "output.jpg", role="image")
        write_image(folder / image.name, rendered.frames[0])
        return [image]
    assert asked.fps is not None  # of transfer alone it was open
    write_video(folder / VIDEO.name, rendered.frames, exact_rate(asked.fps), rendered.sound, check)
    return [VIDEO, *_write_actions(rendered.actions, folder)]


def _write_actions(actions: np.ndarray | None, folder: Path) -> list[MadeFile]:
    if actions is None:
        return []
    write_actions(folder / ACTIONS.name, actions)
    return [ACTIONS]
