"""A guardrail that fails names the cause and quotes no prompt: on stand-ins; `tests/omni` has the real package."""

import traceback

import numpy as np
import pytest

from cosmos_batch.engines.strict_guardrails import GuardrailFailed, make_strict
from tests.support.guardrail_runners import TextRunner, VideoRunner

PROMPT = "A cube\nof ice melts for Mrs. Miller."


def test_the_failure_names_the_error_and_its_place_and_nothing_of_its_text() -> None:
    """The text may quote the prompt, whole or changed, and files of the host."""
    text, video = TextRunner(["forbidden"]), VideoRunner()
    reported: dict[str, str] = {}

    def run_out(prompt: str) -> tuple[bool, str]:
        raise MemoryError(f"no room for {prompt!r} ({prompt.upper()}) in /mnt/models/Qwen3Guard")

    text.safety_models[1].extract_label_and_categories = run_out
    make_strict(text, video, reported.__setitem__)
    with pytest.raises(GuardrailFailed) as raised:
        text.run_safety_check(PROMPT)
    place = r"run_out \(test_strict_guardrails.py, line \d+\)\."
    assert raised.match(rf"^The guardrail could not judge the prompt: MemoryError in {place}$")
    logged = "".join(traceback.format_exception(raised.value))
    assert not any(secret in logged for secret in ("no room", "Miller", "MILLER", "/mnt/models"))
    assert reported == {}


def test_the_failure_of_an_output_is_told_in_the_same_way() -> None:
    text, video = TextRunner(["forbidden"]), VideoRunner()
    make_strict(text, video, lambda *_: None)
    video.broken = True
    with pytest.raises(GuardrailFailed, match="could not judge the output: RuntimeError in postprocess") as raised:
        video.postprocess(np.zeros((1, 32, 32, 3), np.uint8))
    assert "face detector" not in "".join(traceback.format_exception(raised.value))
