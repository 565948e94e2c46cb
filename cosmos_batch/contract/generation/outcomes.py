"""How a generation can end that is neither a result nor anybody's fault."""

from typing import Literal

from cosmos_batch.contract.error import Failure


def blocked(what: Literal["prompt", "output"]) -> Failure:
    """A guardrail said no. What it found is neither logged nor shown."""
    if what == "prompt":
        return Failure("Blocked", "The guardrail refused the prompt; nothing was made.", "Write another prompt.")
    return Failure(
        "Blocked",
        "The guardrail refused the output, which was thrown away; the prompt had passed.",
        "Write another prompt, or take another input or seed.",
    )
