"""What a generator made as files, looked at before anybody gets them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.engines.generator_inputs import Prepared
from cosmos_batch.media import (
    Sound,
    WantedVideo,
    check_actions,
    check_image,
    check_video,
    exact_rate,
    write_actions,
    write_image,
    write_video,
)


@dataclass(frozen=True)
class Made:
    """By an engine: frames (RGB, uint8, [T, H, W, 3]), and what came with them."""

    frames: np.ndarray
    sound: Sound | None = None
    actions: np.ndarray | None = None


@dataclass(frozen=True)
class Delivered:
    """Files that were checked.

    Attributes
    ----------
    generation
        As it was made: with the size, frames and rate that followed from the inputs.
    file
        The image or video.
    actions
        JSON, where the mode predicts some.
    notes
        What a person should know of them.
    """

    generation: Generation
    file: Path
    actions: Path | None
    notes: list[str]


def deliver(made: Made, prepared: Prepared, folder: Path, check: Callable[[], None]) -> Delivered:
    """Write `output.*` and `actions.json` in the job's folder. Raises Failure (EngineFailed) for nonsense."""
    asked = prepared.generation
    file, notes = (_deliver_video if asked.is_video else _deliver_image)(made, prepared, folder, check)
    actions = _deliver_actions(made, asked, folder)
    return Delivered(asked, file, actions, notes)


def _deliver_image(made: Made, prepared: Prepared, folder: Path, _check: Callable[[], None]) -> tuple[Path, list[str]]:
    path = folder / ("output.png" if prepared.generation.image_format == "png" else "output.jpg")
    write_image(path, made.frames[0])
    return path, check_image(path, *prepared.size)


def _deliver_video(made: Made, prepared: Prepared, folder: Path, check: Callable[[], None]) -> tuple[Path, list[str]]:
    asked = prepared.generation
    assert asked.fps is not None and asked.num_frames is not None
    path, fps = folder / "output.mp4", exact_rate(asked.fps)
    write_video(path, made.frames, fps, made.sound if asked.sound else None, check)
    return path, check_video(path, WantedVideo(*prepared.size, asked.num_frames, fps, asked.sound))


def _deliver_actions(made: Made, asked: Generation, folder: Path) -> Path | None:
    if asked.action is None or asked.mode == "forward_dynamics":
        return None
    actions = np.zeros((0, 0)) if made.actions is None else made.actions
    check_actions(actions, asked.action.chunk_size, asked.action.width)
    path = folder / "actions.json"
    write_actions(path, actions)
    return path
