"""Transfer: the videos that say where edges, depth or segments are, and how much each counts."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.sizes import FRAME_STEP, SHORTEST_VIDEO, Size, frames_within, whole_frames

# In the order in which the model is shown them.
Hint = Literal["edge", "blur", "depth", "seg", "wsm"]
HINTS = get_args(Hint)
Strength = Literal["very_low", "low", "medium", "high", "very_high"]
COMPUTED: tuple[Hint, ...] = ("edge", "blur")  # we can make these from the input; the others need a model of their own

TRANSFER_FRAMES_LIMIT = 5000  # of all chunks together, as in Cosmos Framework
CHUNK_FRAMES = 93
DECODED_GIB_LIMIT = 24  # of all controls together; a worker holds them in its host's memory, twice


class Control(Model):
    """One control video."""

    path: Annotated[str, Field(min_length=1, max_length=2048)] | None = Field(
        default=None,
        description="S3 URI, or the name of a file beside the input; absent: made from the input, for edge and blur",
    )
    weight: float = Field(default=1.0, ge=0, le=100, allow_inf_nan=False, description="Its share among several")
    strength: Strength = Field(
        default="medium", description="How much is left out where we make it: of edges, or of details by a blur"
    )


Controls = dict[Hint, Control]


# Of one hint alone; of several, those of the first row. Cosmos Framework's `_TRANSFER_DEFAULTS` at 5eee9ed.
CONTROL_GUIDANCE: dict[Hint, float] = {"edge": 1.5, "blur": 1.5, "depth": 1.5, "seg": 2.0, "wsm": 3.0}
GUIDANCE: dict[Hint, float] = {"wsm": 1.0}
CHUNK_FRAMES_OF: dict[Hint, int] = {"wsm": 101}


def only_hint(controls: Controls) -> Hint:
    """The hint whose defaults count: its own where it stands alone, else those of edge."""
    return next(iter(controls)) if len(controls) == 1 else "edge"


def settle_controls(said: Controls | None, has_input: bool) -> Controls:
    """In the model's order. Raises Failure where there is nothing to follow."""
    controls = {hint: said[hint] for hint in HINTS if hint in said} if said else {}
    if not controls:
        raise Failure(
            "InvalidInput", "controls: transfer needs one at least.", f"Name one or several of: {', '.join(HINTS)}."
        )
    for hint, control in controls.items():
        if control.path is None and hint not in COMPUTED:
            raise Failure(
                "InvalidInput", f"controls.{hint}: has no path.", f"Name its video; we make {' and '.join(COMPUTED)}."
            )
        if control.path is None and not has_input:
            raise Failure(
                "InvalidInput",
                f"controls.{hint}: has no path, and there is no input to make it from.",
                "Name its video, or an input.",
            )
    if not sum(control.weight for control in controls.values()):
        raise Failure("InvalidInput", "controls: all weights are 0.", "Give one of them a weight.")
    return controls


def refuse_several(controls: Controls) -> None:
    """Raises Failure where a server that sees none of our files would need more than the one that is uploaded to it."""
    if len(controls) > 1:
        raise Failure(
            "InvalidInput",
            f"controls: are {len(controls)}, and the server of this pipeline takes one upload.",
            "Ask for one control, or use a pipeline whose workers run the model themselves.",
        )


def settle_control_frames(asked: int | None, frames: dict[Hint, int]) -> int:
    """How many frames to make, given how many each control video has. Raises Failure where they do not go together.

    The model makes 4k+1 frames and a control video cannot be lengthened, so of a control video whose length is not
    4k+1 the last frames, three at most, are left out. `asked` is 4k+1 already, rounded up.
    """
    lengths = ", ".join(f"{hint} {count}" for hint, count in frames.items())
    if len(set(frames.values())) > 1:
        raise Failure("InvalidInput", f"controls: differ in their frames: {lengths}.", "Cut them to one length.")
    given = next(iter(frames.values()))
    if given < SHORTEST_VIDEO or (asked is not None and asked > whole_frames(given)):
        wanted = f"{SHORTEST_VIDEO} or more" if asked is None else f"{asked}"
        raise Failure(
            "InvalidInput",
            f"controls: frames are {lengths}; {wanted} are needed.",
            "Use longer control videos, or leave numFrames out.",
        )
    return min(asked or TRANSFER_FRAMES_LIMIT + 1, frames_within(given))


def shortened_note(asked: int | None, frames: dict[Hint, int], made: int) -> str | None:
    """What the result says where the control videos' length made it shorter; None where it is as long as it can be."""
    given = next(iter(frames.values()))
    if asked is not None and made < asked:
        return f"{asked} frames became {made}: the control videos have {given}, and the model makes 4k+1."
    if asked is None and given <= TRANSFER_FRAMES_LIMIT and made < given:
        return f"Of the control videos' {given} frames the first {made} were followed: the model makes 4k+1."
    return None


def may_be_made_of(asked: int, made: int) -> bool:
    """Whether a transfer planned for `asked` frames may have `made`: a control video can take one step off its end."""
    return asked - FRAME_STEP <= made <= asked


def refuse_long_controls(frames: int, size: Size, count: int) -> None:
    """Raises Failure where so many control videos do not fit into a worker's memory, decoded."""
    gib = frames * size.area * 3 * count / 2**30
    if gib > DECODED_GIB_LIMIT:
        raise Failure(
            "InvalidInput",
            f"controls: {count} of {frames} frames of {size.width}x{size.height} are {gib:.0f} GiB decoded; "
            f"{DECODED_GIB_LIMIT} are the most.",
            "Ask for fewer frames, a smaller resolution or fewer controls.",
        )
