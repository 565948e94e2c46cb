"""The inputs of a generation: decoded, and fitted to exactly its size, frame count and frame rate.

Every engine calls `prepare` first, so that no engine decodes, resizes or samples a file by rules of its own.
"""

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
    probe_control,
    upright_size,
)
from cosmos_batch.planning.generation.actions import refuse_rows
from cosmos_batch.planning.generation.dimensions import fit_to_input
from cosmos_batch.planning.generation.settling import refuse_input
from cosmos_batch.planning.generation.transfer import follow_controls, refuse_long_controls

Frames = list[np.ndarray]
"""Pictures in RGB, uint8, each of shape [H, W, 3]."""


@dataclass(frozen=True)
class PreparedGeneration:
    """A generation whose size, frame count and frame rate are settled, with its decoded inputs.

    Attributes
    ----------
    generation
        The generation with every parameter settled.
    size
        Width and height of the output in pixels.
    frames
        The input's frames that condition the generation: one for an image, none without an input.
    controls
        With `transfer`, the frames of each control video.
    actions
        The rows of a `forward_dynamics` job; None otherwise.
    """

    generation: Generation
    size: Size
    frames: Frames = field(default_factory=list)
    controls: dict[Hint, Frames] = field(default_factory=dict)
    actions: Actions | None = None


def refuse_missing_parts(generation: Generation, *, sound: bool, actions: bool) -> None:
    """Raise Failure (InvalidInput) for a generation with sound or actions if the checkpoint has no weights for them."""
    if generation.sound and not sound:
        raise Failure(
            "InvalidInput", "sound: this checkpoint generates no sound.", "Leave sound out, or use another model."
        )
    if generation.action and not actions:
        raise Failure("InvalidInput", f"mode: this checkpoint cannot do {generation.mode}.", "Use cosmos3-nano.")


def prepare(generation: Generation, files: GenerationFiles, check: Callable[[], None]) -> PreparedGeneration:
    """Decode the input files and fit them to the generation.

    `check` is called after each decoded frame; an exception that it raises ends the decoding. Raises Failure
    (InvalidInput) for a file that cannot be used.
    """
    if generation.transfer:
        return _prepare_transfer(generation, files, check)
    fitted = _fitted(generation, files.input)
    size = _size(fitted)
    frames = _frames(fitted, files.input, size, check) if files.input else []
    return PreparedGeneration(fitted, size, frames, actions=_actions(fitted))


def action_canvas(tier: Resolution, size: Size) -> Size:
    """Return the canvas that engines choose for a picture with actions: the tier's size nearest in aspect ratio."""
    return min(SIZES[tier].values(), key=lambda canvas: abs(canvas.height / canvas.width - size.height / size.width))


def action_size(tier: Resolution, width: int, height: int) -> Size:
    """Return the size of a video with actions: the input's aspect ratio, shrunk to fit a canvas of the tier.

    Engines choose the canvas by the input's aspect ratio, shrink an input that is larger, pad the rest of the canvas,
    and crop the padding from the video. The size that is returned is a fixed point of that rule: it is chosen the same
    canvas and needs no further shrinking.
    """
    size, fitted = Size(0, 0), Size(width, height)
    while size != fitted:
        size = fitted
        canvas = action_canvas(tier, size)
        scale = min(canvas.width / size.width, canvas.height / size.height, 1.0)
        fitted = Size(_step_multiple(size.width * scale), _step_multiple(size.height * scale))
    return size


def _step_multiple(side: float) -> int:
    """Round a side in pixels down to a multiple of `SIZE_STEP`."""
    return max(SIZE_STEP, int(side + 0.5) // SIZE_STEP * SIZE_STEP)


def _fitted(generation: Generation, medium: Path | None) -> Generation:
    if medium is None:
        return generation
    input_size = upright_size(medium)
    if generation.action is None or generation.resolution is None:
        return fit_to_input(generation, *input_size)
    size = action_size(generation.resolution, *input_size)
    return generation.model_copy(update={"width": size.width, "height": size.height})


def _size(generation: Generation) -> Size:
    if generation.size is None:
        raise Failure(
            "InvalidInput",
            f"input: mode {generation.mode} needs an input file, and the job has none.",
            "Name the file.",
        )
    return generation.size


def _frames(generation: Generation, path: Path, size: Size, check: Callable[[], None]) -> Frames:
    info = probe(path)
    if not isinstance(info, VideoInfo):
        refuse_input(generation.mode, "image")  # a name may say that it is a video
        return [image_at_size(path, size)]
    assert generation.fps is not None and generation.num_frames is not None  # only a transfer leaves them open
    if generation.conditioning:
        count = max(generation.conditioning.frames) * FRAME_STEP + 1
        times = frame_times_at(info.timeline, generation.fps, count, generation.conditioning.keep)
    elif generation.mode == "inverse_dynamics":
        times = frame_times_at(info.timeline, generation.fps, generation.num_frames)
    else:
        times = first_frame_times(info.timeline, 1)
    return list(frames_at_size(path, info.timeline, times, size, check))


def _actions(generation: Generation) -> Actions | None:
    settings = generation.action
    if settings is None or generation.mode != "forward_dynamics":
        return None
    actions = settings.actions
    if actions is None:
        raise Failure(
            "InvalidInput",
            "action: forward_dynamics needs actions, and the job has none.",
            "Send the actions, or name their file.",
        )
    refuse_rows(len(actions), settings.chunk_size)
    return actions


def _prepare_transfer(generation: Generation, files: GenerationFiles, check: Callable[[], None]) -> PreparedGeneration:
    assert generation.transfer is not None
    paths = {hint: files.controls.get(hint, files.input) for hint in generation.transfer.controls}
    videos = {hint: _control_video(hint, path) for hint, path in paths.items()}
    first_path, first = next(iter(videos.values()))
    frames_of_hint = {hint: len(info.timeline.times) for hint, (_, info) in videos.items()}
    followed = follow_controls(generation, frames_of_hint, first.timeline.fps)
    followed = fit_to_input(followed, *upright_size(files.input or first_path))
    size, count = _size(followed), followed.num_frames
    assert count is not None
    refuse_long_controls(count, size, len(videos))
    controls: dict[Hint, Frames] = {}
    for hint, (path, info) in videos.items():
        with label_failures(f"controls.{hint}: "):
            frames = frames_at_size(path, info.timeline, first_frame_times(info.timeline, count), size, check)
            controls[hint] = [_signal(followed, hint, frame, hint in files.controls) for frame in frames]
    return PreparedGeneration(followed, size, controls=controls)


def _control_video(hint: Hint, path: Path | None) -> tuple[Path, VideoInfo]:
    if path is None:
        raise Failure("InvalidInput", f"controls.{hint}: has no video file.", "Name its video.")
    return path, probe_control(hint, path)


def _signal(generation: Generation, hint: Hint, frame: np.ndarray, has_own_video: bool) -> np.ndarray:
    """Return one frame of a control: the frame of its own video, or edges or a blur computed from the input's frame."""
    if has_own_video:
        return frame
    from cosmos_batch.media.control_signals import blurred, edges

    assert generation.transfer is not None
    make = edges if hint == "edge" else blurred
    return make(frame, generation.transfer.controls[hint].strength)
