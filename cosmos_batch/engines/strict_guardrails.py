"""NVIDIA's guardrails, made to fail closed.

As they come, some of what goes wrong in them counts as "safe" (cosmos_guardrail 0.3.2, which Diffusers and vLLM-Omni
use, and Cosmos Framework at 5eee9ed):

- `Qwen3Guard.is_safe` answers "safe" to every exception of its own, to an answer of its model without a label too.
- A runner that has no models answers "safe".
- A block list of which no file can be read is an empty one.

With `make_strict` each of these raises `GuardrailFailed`, and every verdict is reported, so that an engine can tell a
check that passed from one that never ran. The engines' own processes run this, in environments of their own: it imports
nothing but the standard library.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

UNJUDGED = "The guardrail could not judge"
"""How the message of every GuardrailFailed begins: it is recognized by this after it went through a server."""

_CHECKS_OF_PROMPTS = ["Blocklist", "Qwen3Guard"]

Report = Callable[[str, str], None]
"""Is told what was evaluated, `prompt` or `output`, and the verdict, as the contract's `Verdict` calls it."""


class GuardrailFailed(Exception):  # noqa: N818 - it says what happened
    """A guardrail gave no verdict. The message says why and quotes no prompt."""


def make_strict(text: Any, video: Any, report: Report) -> None:
    """Change two loaded runners, of prompts and of outputs, so that what they cannot judge raises GuardrailFailed.

    Raises GuardrailFailed at once where a part is missing, or is there that this module does not know: nobody has
    looked at how it fails.
    """
    checks = {type(check).__name__: check for check in text.safety_models or ()}
    if sorted(checks) != _CHECKS_OF_PROMPTS:
        raise GuardrailFailed(
            f"{UNJUDGED} prompts: they are checked by {_names(checks)}, not by Blocklist, Qwen3Guard."
        )
    if not checks["Blocklist"].blocklist_words:
        raise GuardrailFailed(f"{UNJUDGED} prompts: the block list has no words; its files are missing or unreadable.")
    if video.safety_models:
        found = _names(type(one).__name__ for one in video.safety_models)
        raise GuardrailFailed(f"{UNJUDGED} outputs: they are checked by {found}, whose failures are not known here.")
    if not video.postprocessors:
        raise GuardrailFailed(f"{UNJUDGED} outputs: nothing is there that blurs faces.")
    prompt_checker = checks["Qwen3Guard"]
    prompt_checker.is_safe = prompt_checker.extract_label_and_categories  # which `is_safe` wraps in its `except`
    _report_prompts(text, report)
    _report_outputs(video, report)


def _report_prompts(text: Any, report: Report) -> None:
    ask = text.run_safety_check

    def run_safety_check(prompt: str) -> tuple[bool, str]:
        with _failing_closed("the prompt", prompt):
            safe, why = ask(prompt)
        if safe:
            report("prompt", "passed")
        return safe, why

    text.run_safety_check = run_safety_check


def _report_outputs(video: Any, report: Report) -> None:
    blur_faces = video.postprocess

    def postprocess(frames: Any) -> Any:
        with _failing_closed("the output"):
            blurred = blur_faces(frames)
        report("output", "facesBlurred")
        return blurred

    video.postprocess = postprocess


@contextmanager
def _failing_closed(what: str, prompt: str | None = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise GuardrailFailed(f"{UNJUDGED} {what}: {_reason(error, prompt)}") from error


def _reason(error: Exception, prompt: str | None) -> str:
    if isinstance(error, AttributeError) and error.name == "lower":  # of the label, which is None
        return "the answer of Qwen3Guard has no label (Safety: Safe, Unsafe or Controversial)."
    said = f"{type(error).__name__}: {error}"
    return said.replace(prompt, "(the prompt)") if prompt else said


def _names(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"
