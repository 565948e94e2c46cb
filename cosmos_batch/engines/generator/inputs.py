"""What a generation looks at, at exactly its size, length and rate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from cosmos_batch.catalogue.generation import FRAME_STEP, SIZE_STEP, SIZES, Hint, Resolution, Size
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.actions import Actions
from cosmos_batch.contract.generation.generation import Generation
from cosmos_batch.engines.job_files import GenerationFiles
from cosmos_batch.media import (
    VideoInfo,
    first_frame_times,
    frame_times_at,
    frames_at_size,
    image_at_size,
    label_failures,
    probe,
    upright_size,
)
from cosmos_batch.planning.generation.actions import refuse_rows
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.transfer import follow_controls, refuse_long_controls

Frames = list[np.ndarray]
"""RGB, uint8, each of shape [H, W, 3]."""


@dataclass(frozen=True)
class PreparedGeneration:
    """A generation with size, frames and rate, and what it looks at."""

    generation: Generation
    size: Size
    frames: Frames = field(default_factory=list)
    controls: dict[Hint, Frames] = field(default_factory=dict)
    actions: Actions | None = None


def refuse_missing_parts(asked: Generation, *, sound: bool, actions: bool) -> None:
    """Raises Failure, before any work, where a checkpoint has no such part."""
    if asked.sound and not sound:
        raise Failure("InvalidInput", "sound: this checkpoint makes none.", "Leave sound out, or use another model.")
    if asked.action and not actions:
        raise Failure("InvalidInput", f"mode: this checkpoint does no {asked.mode}.", "Use cosmos3-nano.")


def prepare(asked: Generation, files: GenerationFiles, check: Callable[[], None]) -> PreparedGeneration:
    """Decode and fit the inputs; `check` is called after each decoded frame, and what it raises ends it.

    Raises Failure (InvalidInput) where a file cannot be used.
    """
    if asked.transfer:
        return _prepare_transfer(asked, files, check)
    fitted = _fitted(asked, files.input)
    size = _size(fitted)
    frames = _frames(fitted, files.input, size, check) if files.input else []
    return PreparedGeneration(fitted, size, frames, actions=_actions(fitted))


def action_canvas(tier: Resolution, size: Size) -> Size:
    """The size of a tier on which engines put a picture with actions: the nearest in shape."""
    return min(SIZES[tier].values(), key=lambda one: abs(one.height / one.width - size.height / size.width))


def action_size(tier: Resolution, width: int, height: int) -> Size:
    """Of a video with actions: the input's shape on the canvas of a tier, never enlarged.

    Engines choose the canvas by the input's shape, shrink what is too large and pad the rest, of which nothing is left
    in the video. What comes out goes into the same canvas as it is, so that they have nothing to shrink.
    """
    size, fitted = Size(0, 0), Size(width, height)
    while size != fitted:
        size = fitted
        canvas = action_canvas(tier, size)
        scale = min(canvas.width / size.width, canvas.height / size.height, 1.0)
        fitted = Size(_whole(size.width * scale), _whole(size.height * scale))
    return size


def _whole(side: float) -> int:
    return max(SIZE_STEP, int(side + 0.5) // SIZE_STEP * SIZE_STEP)


def _fitted(asked: Generation, medium: Path | None) -> Generation:
    if medium is None:
        return asked
    found = upright_size(medium)
    if asked.action is None or asked.resolution is None:
        return fit_to_input(asked, *found)
    size = action_size(asked.resolution, *found)
    return asked.model_copy(update={"width": size.width, "height": size.height})


def _size(asked: Generation) -> Size:
    if asked.size is None:
        raise Failure("InvalidInput", f"input: {asked.mode} needs one, and there is none.", "Name the file.")
    return asked.size


def _frames(asked: Generation, path: Path, size: Size, check: Callable[[], None]) -> Frames:
    found = probe(path)
    if not isinstance(found, VideoInfo):
        return [image_at_size(path, size)]
    assert asked.fps is not None and asked.num_frames is not None  # of transfer alone they are not known
    if asked.conditioning:
        kept = max(asked.conditioning.frames) * FRAME_STEP + 1
        times = frame_times_at(found.timeline, asked.fps, kept, asked.conditioning.keep)
    elif asked.mode == "inverse_dynamics":
        times = frame_times_at(found.timeline, asked.fps, asked.num_frames)
    else:
        times = first_frame_times(found.timeline, 1)
    return list(frames_at_size(path, found.timeline, times, size, check))


def _actions(asked: Generation) -> Actions | None:
    settings = asked.action
    if settings is None or asked.mode != "forward_dynamics":
        return None
    actions = settings.actions
    if actions is None:
        raise Failure("InvalidInput", "action: is missing.", "Send the actions, or name their file.")
    refuse_rows(len(actions), settings.chunk_size)
    return actions


def _prepare_transfer(asked: Generation, files: GenerationFiles, check: Callable[[], None]) -> PreparedGeneration:
    assert asked.transfer is not None
    paths = {hint: files.controls.get(hint, files.input) for hint in asked.transfer.controls}
    videos = {hint: _control_video(hint, path) for hint, path in paths.items()}
    first_path, first = next(iter(videos.values()))
    frames_of_hint = {hint: len(found.timeline.times) for hint, (_, found) in videos.items()}
    followed = follow_controls(asked, frames_of_hint, first.timeline.fps)
    followed = fit_to_input(followed, *upright_size(files.input or first_path))
    size, count = _size(followed), followed.num_frames
    assert count is not None
    refuse_long_controls(count, size, len(videos))
    controls: dict[Hint, Frames] = {}
    for hint, (path, found) in videos.items():
        with label_failures(f"controls.{hint}: "):
            frames = frames_at_size(path, found.timeline, first_frame_times(found.timeline, count), size, check)
            controls[hint] = [_signal(followed, hint, frame, hint in files.controls) for frame in frames]
    return PreparedGeneration(followed, size, controls=controls)


def _control_video(hint: Hint, path: Path | None) -> tuple[Path, VideoInfo]:
    if path is None:
        raise Failure("InvalidInput", f"controls.{hint}: has no video.", "Name its video.")
    with label_failures(f"controls.{hint}: "):
        found = probe(path)
    if not isinstance(found, VideoInfo):
        raise Failure("InvalidInput", f"controls.{hint}: is an image; a video is needed.", "Name its video.")
    return path, found


def _signal(asked: Generation, hint: Hint, frame: np.ndarray, is_given: bool) -> np.ndarray:
    """A frame of a control video: as it was given, or made from the input's."""
    if is_given:
        return frame
    from cosmos_batch.media.control_signals import blurred, edges

    assert asked.transfer is not None
    make = edges if hint == "edge" else blurred
    return make(frame, asked.transfer.controls[hint].strength)
