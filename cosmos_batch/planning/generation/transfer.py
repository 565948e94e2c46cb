"""Settle which control videos a transfer follows, how closely, and how many frames it has."""

from cosmos_batch.catalogue.generation import (
    COMPUTED_HINTS,
    FRAME_STEP,
    HINT_DEFAULTS,
    HINTS,
    SHORTEST_VIDEO,
    TRANSFER_FRAME_LIMIT,
    Hint,
    HintDefaults,
    Resolution,
    Size,
    round_down_frames,
    round_up_frames,
)
from cosmos_batch.contract.counting import counted
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.generation import Generation, Transfer
from cosmos_batch.contract.generation.parameters import Controls, GenerationParameters
from cosmos_batch.planning.generation.dimensions import notes_on_short_video, refuse_frames

DECODED_GIB_LIMIT = 24  # the limit of all control videos together, which a worker holds in its host's memory twice


def settle_transfer(parameters: GenerationParameters, tier: Resolution, has_input: bool) -> Transfer:
    """Return the settings of a transfer. Raises Failure (InvalidInput)."""
    controls = _settle_controls(parameters.controls, has_input)
    defaults = hint_defaults(controls)
    frames_per_chunk = round_up_frames(parameters.frames_per_chunk or defaults.frames_per_chunk)
    refuse_frames(frames_per_chunk, tier, "framesPerChunk")
    guidance = parameters.control_guidance
    return Transfer(
        controls=controls,
        control_guidance=defaults.control_guidance if guidance is None else guidance,
        frames_per_chunk=frames_per_chunk,
    )


def hint_defaults(controls: Controls) -> HintDefaults:
    """Return the default settings of a transfer: those of its control video, or edge's if it has several."""
    hint = next(iter(controls)) if len(controls) == 1 else "edge"
    return HINT_DEFAULTS[hint]


def _settle_controls(requested: Controls | None, has_input: bool) -> Controls:
    """Return the controls in the model's order. Raises Failure if one has no video, or if all weights are 0."""
    controls = {hint: requested[hint] for hint in HINTS if hint in requested} if requested else {}
    if not controls:
        raise Failure(
            "InvalidInput", "controls: transfer needs at least one.", f"Name one or several of: {', '.join(HINTS)}."
        )
    for hint, control in controls.items():
        if control.path is None and hint not in COMPUTED_HINTS:
            raise Failure(
                "InvalidInput",
                f"controls.{hint}: has no path.",
                f"Name its video; only {' and '.join(COMPUTED_HINTS)} are computed from the input.",
            )
        if control.path is None and not has_input:
            raise Failure(
                "InvalidInput",
                f"controls.{hint}: has no path, and there is no input to compute it from.",
                "Name its video, or an input.",
            )
    if not sum(control.weight for control in controls.values()):
        raise Failure("InvalidInput", "controls: all weights are 0.", "Give one of them a weight.")
    return controls


def follow_controls(generation: Generation, frames: dict[Hint, int], fps: float) -> Generation:
    """Return a transfer with the number of frames and the frame rate of its decoded control videos.

    `frames` is the number of frames of each, `fps` the frame rate of the first. If the result is shorter than
    requested, than the control videos, or than NVIDIA recommends, a note says so. Raises Failure (InvalidInput) if the
    control videos differ in length or are too short.
    """
    count = _settle_control_frames(generation.num_frames, frames)
    note = _shortened_note(generation.num_frames, next(iter(frames.values())), count)
    notes = [*([note] if note else []), *notes_on_short_video(count)]
    return generation.model_copy(
        update={
            "num_frames": count,
            "fps": fps if generation.fps is None else generation.fps,
            "notes": list(dict.fromkeys([*generation.notes, *notes])),
        }
    )


def _settle_control_frames(requested: int | None, frames: dict[Hint, int]) -> int:
    """Return how many frames to generate. `requested` has been rounded up to 4k+1 already.

    The model generates 4k+1 frames and a control video cannot be lengthened, so up to three frames at the end of the
    control videos are left out.
    """
    lengths = ", ".join(f"{hint} {count}" for hint, count in frames.items())
    if len(set(frames.values())) > 1:
        raise Failure(
            "InvalidInput",
            f"controls: the videos differ in their frames: {lengths}.",
            "Cut them to the same number of frames.",
        )
    available = next(iter(frames.values()))
    if available < SHORTEST_VIDEO or (requested is not None and requested > round_up_frames(available)):
        needed = f"{SHORTEST_VIDEO} or more" if requested is None else f"{requested}"
        raise Failure(
            "InvalidInput",
            f"controls: their numbers of frames are {lengths}; {needed} are needed.",
            "Use longer control videos, or leave numFrames out.",
        )
    return min(requested or TRANSFER_FRAME_LIMIT + 1, round_down_frames(available))


def _shortened_note(requested: int | None, available: int, count: int) -> str | None:
    """Return a note if the length of the control videos shortens the result."""
    if requested is not None and count < requested:
        frames = counted(requested, "frame")
        return f"{frames} became {count}: the control videos have {available}, and the model generates 4k+1."
    if requested is None and available <= TRANSFER_FRAME_LIMIT and count < available:
        return f"Only the first {count} of the control videos' {available} frames are used: the model generates 4k+1."
    return None


def may_have_frames(generation: Generation, frames: int | None) -> bool:
    """Return whether the result of a planned generation may have this number of frames.

    A transfer may lose one step of four frames, because its control videos end before the last one is complete.
    """
    if generation.num_frames is None:
        return True
    if generation.transfer and frames is not None:
        return generation.num_frames - FRAME_STEP <= frames <= generation.num_frames
    return frames == generation.num_frames


def refuse_long_controls(frames: int, size: Size, count: int) -> None:
    """Raise Failure if `count` control videos of this length and size do not fit into a worker's memory, decoded."""
    gib = frames * size.area * 3 * count / 2**30
    if gib > DECODED_GIB_LIMIT:
        raise Failure(
            "InvalidInput",
            f"controls: {count} of {frames} frames of {size.width}x{size.height} take {gib:.0f} GiB when decoded; "
            f"the limit is {DECODED_GIB_LIMIT}.",
            "Use fewer frames, a smaller resolution or fewer controls.",
        )
