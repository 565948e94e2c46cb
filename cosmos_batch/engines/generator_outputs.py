"""What a generator made as files. The worker looks at them before anybody gets them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.result import MadeFile
from cosmos_batch.media import Sound, exact_rate, write_actions, write_image, write_video


@dataclass(frozen=True)
class Rendered:
    """By an engine: frames (RGB, uint8, [T, H, W, 3]), and what came with them."""

    frames: np.ndarray
    sound: Sound | None = None
    actions: np.ndarray | None = None


def write_files(rendered: Rendered, asked: Generation, folder: Path, check: Callable[[], None]) -> list[MadeFile]:
    """Write them into a job's folder; `check` is called after each frame, and what it raises ends it.

    Raises Failure (EngineFailed) where they are no pictures, sound or actions.
    """
    if not asked.is_video:
        image = MadeFile(name="output.png" if asked.image_format == "png" else "output.jpg", role="image")
        write_image(folder / image.name, rendered.frames[0])
        return [image]
    assert asked.fps is not None  # of transfer alone it was open
    files = [MadeFile(name="output.mp4", role="video")]
    write_video(folder / files[0].name, rendered.frames, exact_rate(asked.fps), rendered.sound, check)
    if rendered.actions is not None:
        files.append(MadeFile(name="actions.json", role="actions"))
        write_actions(folder / files[1].name, rendered.actions)
    return files
