"""The guardrails' verdicts on a generation, and the errors of jobs that they refuse or cannot judge."""

from typing import Literal

from pydantic import Field

from cosmos_batch.contract.base import Model
from cosmos_batch.contract.error import Failure

GuardrailVerdict = Literal["passed", "facesBlurred", "notEvaluated", "notVerified"]
"""A guardrail's verdict on a prompt or an output that was delivered. What a guardrail blocks is never delivered.

- `passed`: a guardrail evaluated it and let it pass.
- `facesBlurred`: faces that were detected in it were blurred; no guardrail evaluated its other content.
- `notEvaluated`: no guardrail evaluated it.
- `notVerified`: an external server was to check it, and does not report whether it did.
"""


class Checks(Model):
    """The guardrails' verdicts on one generation."""

    by: str | None = Field(default=None, description="The guardrails that checked, with their version")
    prompt: GuardrailVerdict = "notEvaluated"
    negative_prompt: GuardrailVerdict = Field(
        default="notEvaluated", description="No engine's guardrails evaluate it: it names what is not wanted"
    )
    output: GuardrailVerdict = "notEvaluated"


NOT_VERIFIED = Checks(prompt="notVerified", output="notVerified")
"""The verdicts of an external server that has guardrails and does not report them."""


def blocked(part: Literal["prompt", "output", "promptOrOutput"]) -> Failure:
    """Return the error of a job whose prompt or output a guardrail refuses. The reason is neither logged nor shown.

    `promptOrOutput` is for a server that does not say which of them it refuses.
    """
    if part == "prompt":
        return Failure("Blocked", "The guardrail refused the prompt; nothing was generated.", "Write another prompt.")
    message = (
        "The guardrail refused the output, which was deleted; the prompt had passed."
        if part == "output"
        else "The guardrail refused the prompt or the output; nothing was delivered."
    )
    return Failure("Blocked", message, "Write another prompt, or use another input or seed.")


def unjudged(cause: str) -> Failure:
    """Return the error of a job that requires guardrails which gave no verdict; none of its output is delivered."""
    return Failure(
        "EngineFailed",
        f"Nothing was delivered, because the guardrails gave no verdict. {cause}",
        "Try again; if it happens again, check that the guardrails' models are those of NVIDIA and Qwen and that the "
        "GPU has memory for them. The job can run without guardrails only where its "
        "pipeline's configuration allows it.",
    )
