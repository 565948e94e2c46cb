"""Changes NVIDIA's guardrails to fail closed: what they cannot judge is an error and not "safe".

In cosmos_guardrail 0.3.2, which Diffusers and vLLM-Omni use, and in Cosmos Framework at 5eee9ed:

- `Qwen3Guard.is_safe` returns "safe" if it raises an exception, or if its model's answer has no label.
- A runner without models returns "safe".
- A block list whose files cannot be read is empty.

After `make_strict` each of these raises `GuardrailFailed`, and every verdict is reported, so that an engine can tell a
check that passed from one that never ran. This runs in the engines' own processes and environments, so it imports only
the standard library. See decision 066.
"""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UNJUDGED = "The guardrail could not judge"
"""How the message of every GuardrailFailed begins. After a server has passed the message on, only this identifies
it."""

_PROMPT_CHECKS = ["Blocklist", "Qwen3Guard"]

Report = Callable[[str, str], None]
"""Called with what was checked, `prompt` or `output`, and the verdict, as one of `GuardrailVerdict`."""


class GuardrailFailed(Exception):  # noqa: N818 - it says what happened
    """A guardrail gave no verdict. The message says why, without the text of an exception of the guardrails' package,
    which may quote the prompt or name files.
    """


def make_strict(text: Any, video: Any, report: Report) -> None:
    """Change the loaded runners of prompts (`text`) and outputs (`video`) so that they raise GuardrailFailed for what
    they cannot judge.

    Raises GuardrailFailed at once if a check is missing, or unknown here, because it may not fail closed.
    """
    checks = {type(check).__name__: check for check in text.safety_models or ()}
    if sorted(checks) != _PROMPT_CHECKS:
        raise GuardrailFailed(
            f"{UNJUDGED} prompts: they are checked by {_names(checks)}, not by Blocklist, Qwen3Guard."
        )
    if not checks["Blocklist"].blocklist_words:
        raise GuardrailFailed(f"{UNJUDGED} prompts: the block list has no words; its files are missing or unreadable.")
    if video.safety_models:
        names = _names(type(check).__name__ for check in video.safety_models)
        raise GuardrailFailed(f"{UNJUDGED} outputs: they are checked by {names}, whose failures are not known here.")
    if not video.postprocessors:
        raise GuardrailFailed(f"{UNJUDGED} outputs: nothing is there that blurs faces.")
    prompt_checker = checks["Qwen3Guard"]
    # `is_safe` calls this method and catches its exceptions.
    prompt_checker.is_safe = prompt_checker.extract_label_and_categories
    _report_prompts(text, report)
    _report_outputs(video, report)


def _report_prompts(text: Any, report: Report) -> None:
    check = text.run_safety_check

    def run_safety_check(prompt: str) -> tuple[bool, str]:
        with _failing_closed("the prompt"):
            safe, why = check(prompt)
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
def _failing_closed(subject: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # A server logs an exception with its cause, so the cause is left out.
        raise GuardrailFailed(f"{UNJUDGED} {subject}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, AttributeError) and error.name == "lower":  # called on a label that is None
        return "the answer of Qwen3Guard has no label (Safety: Safe, Unsafe or Controversial)."
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {raised.name} ({Path(raised.filename).name}, line {raised.lineno})."


def _names(names: Any) -> str:
    return ", ".join(sorted(names)) or "nothing"
