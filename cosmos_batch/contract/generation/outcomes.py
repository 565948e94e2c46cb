"""What guardrails say of a generation: that they let it pass, that they refuse it, or that they could not judge it."""

from typing import Literal

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure

Verdict = Literal["passed", "facesBlurred", "notEvaluated", "notVerified"]
"""What a guardrail said of one thing that was delivered; what it blocks is never delivered.

- `passed`: a guardrail looked at it and let it pass.
- `facesBlurred`: faces that were detected in it were blurred; no guardrail judged what else it shows.
- `notEvaluated`: no guardrail looked at it.
- `notVerified`: a server that runs elsewhere was asked to have it checked, and does not report whether it was.
"""


class Checks(Model):
    """The guardrails' verdicts on one generation."""

    by: str | None = Field(default=None, description="Which guardrails looked, with their version")
    prompt: Verdict = "notEvaluated"
    negative_prompt: Verdict = Field(
        default="notEvaluated", description="No engine's guardrails look at it: it names what is not wanted"
    )
    output: Verdict = "notEvaluated"


def blocked(what: Literal["prompt", "output"]) -> Failure:
    """The error of a job whose prompt or output a guardrail refuses. What it found is neither logged nor shown."""
    if what == "prompt":
        return Failure("Blocked", "The guardrail refused the prompt; nothing was made.", "Write another prompt.")
    return Failure(
        "Blocked",
        "The guardrail refused the output, which was thrown away; the prompt had passed.",
        "Write another prompt, or take another input or seed.",
    )


def unjudged(why: str) -> Failure:
    """The error of a job that asks for guardrails which gave no verdict. Nothing of it is delivered."""
    return Failure(
        "EngineFailed",
        f"Nothing was delivered, for the guardrails gave no verdict. {why}",
        "Try again; if it happens again, see the worker's log, and check that the guardrails' models are those of "
        "NVIDIA and Qwen and that the GPU has memory for them. The job can do without guardrails only where its "
        "pipeline's configuration lets it.",
    )
