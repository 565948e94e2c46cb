"""What an engine gave back, held against what it was asked for: a wrong file is an error and no result."""

from typing import Literal

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.schema import Generation
from cosmos_batch.contract.generation.sizes import Size


def refuse_picture(asked: Generation, size: Size, frames: int) -> None:
    """Raises Failure where a file has another size or number of frames than was asked for."""
    differences = []
    if asked.num_frames is not None and frames != asked.num_frames:
        differences.append(f"{frames} frames instead of {asked.num_frames}")
    if asked.size is not None and size != asked.size:
        differences.append(f"{size} pixels instead of {asked.size}")
    if differences:
        raise Failure(
            "EngineFailed",
            f"The engine made {' and '.join(differences)}; nothing was delivered.",
            "Start it again, on another engine if it happens twice.",
            retryable=True,
        )


def refuse_actions(asked: Generation, rows: list[list[float]]) -> None:
    """Raises Failure where predicted actions have another shape than was asked for."""
    expected = asked.action
    if expected is None:
        return
    if len(rows) != expected.chunk_size or any(len(row) != expected.width for row in rows):
        widths = ", ".join(map(str, sorted({len(row) for row in rows}))) or "no"
        raise Failure(
            "EngineFailed",
            f"The engine made {len(rows)} actions of {widths} numbers instead of {expected.chunk_size} of "
            f"{expected.width}; nothing was delivered.",
            "Start it again, on another engine if it happens twice.",
            retryable=True,
        )


def blocked(what: Literal["prompt", "output"]) -> Failure:
    """A guardrail said no. What it found is neither logged nor shown."""
    if what == "prompt":
        return Failure("Blocked", "The guardrail refused the prompt; nothing was made.", "Write another prompt.")
    return Failure(
        "Blocked",
        "The guardrail refused the output, which was thrown away; the prompt had passed.",
        "Write another prompt, or take another input or seed.",
    )
