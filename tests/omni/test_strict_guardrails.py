"""NVIDIA's `cosmos_guardrail`, unchanged and made strict, with models that say safe, unsafe or nothing, or raise.

It loads what the model store would give it, while nothing is asked of the Hub; the tiny Qwen3Guard really generates.
"""

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.engines.hub_cache import offline_process
from cosmos_batch.engines.strict_guardrails import GuardrailFailed, make_strict
from tests.support.guardrail_files import FORBIDDEN, NONSENSE, SAFE, UNSAFE, write_cosmos_guardrail

PROMPT = "A cube of ice melts."

Load = Callable[..., Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(says: str = SAFE, spoil: Callable[[Path, Path], None] = lambda *_: None) -> Any:
        """Load the checker from files, which `spoil` may change first; it gets both models' folders."""
        from cosmos_guardrail import CosmosSafetyChecker

        models = write_cosmos_guardrail(tmp_path / "store", says)
        spoil(*models.values())
        with offline_process(tmp_path / "hub", models):
            return CosmosSafetyChecker()

    return load


def strict(checker: Any) -> dict[str, str]:
    """Make a checker strict, and return the verdicts that it reports from now on."""
    reported: dict[str, str] = {}
    make_strict(checker.text_guardrail, checker.video_guardrail, reported.__setitem__)
    return reported


def without_chat_template(_: Path, checker: Path) -> None:
    """Remove the chat template, so that the tokenizer raises before the model runs."""
    (checker / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((checker / "tokenizer_config.json").read_text())
    (checker / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": None}))


def test_safe_prompt_and_output_pass_and_are_reported(load: Load) -> None:
    checker = load(SAFE)
    reported = strict(checker)
    assert checker.check_text_safety(PROMPT) and reported == {"prompt": "passed"}
    frames = np.full((2, 64, 64, 3), 80, np.uint8)
    assert np.array_equal(checker.check_video_safety(frames), frames)
    assert reported == {"prompt": "passed", "output": "facesBlurred"}


@pytest.mark.parametrize(("says", "prompt"), [(UNSAFE, PROMPT), (SAFE, f"A {FORBIDDEN} cube.")])
def test_unsafe_prompt_is_refused_and_not_reported_as_passed(load: Load, says: str, prompt: str) -> None:
    checker = load(says)
    reported = strict(checker)
    assert not checker.check_text_safety(prompt) and reported == {}


def test_answer_without_a_label_raises(load: Load) -> None:
    checker = load(NONSENSE)
    assert checker.check_text_safety(PROMPT), "the unchanged package treats that as safe"
    reported = strict(checker)
    with pytest.raises(GuardrailFailed, match="could not judge the prompt: the answer of Qwen3Guard has no label"):
        checker.check_text_safety(PROMPT)
    assert reported == {}


def test_exception_raises_without_quoting_the_prompt(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = load(SAFE, without_chat_template)
    assert checker.check_text_safety(PROMPT), "the unchanged package treats that as safe"
    reported = strict(checker)
    with pytest.raises(GuardrailFailed, match="could not judge the prompt: ValueError in "):
        checker.check_text_safety(PROMPT)

    def run_out(**_: Any) -> Any:
        raise MemoryError(f"no room for {PROMPT}")

    monkeypatch.setattr(checker.text_guardrail.safety_models[1].tokenizer, "apply_chat_template", lambda *_, **__: "a")
    monkeypatch.setattr(checker.text_guardrail.safety_models[1].model, "generate", run_out)
    with pytest.raises(GuardrailFailed, match="MemoryError in run_out") as raised:
        checker.check_text_safety(PROMPT)
    assert PROMPT not in "".join(traceback.format_exception(raised.value))
    assert reported == {}


def test_output_that_cannot_be_checked_raises(load: Load) -> None:
    checker = load(SAFE)
    reported = strict(checker)
    with pytest.raises(GuardrailFailed, match="could not judge the output"):
        checker.check_video_safety(np.zeros((2, 64, 64), np.uint8))
    assert reported == {}


def unreadable(guardrail: Path, _: Path) -> None:
    (guardrail / "blocklist" / "custom" / "words").write_bytes(b"\xff\xfe\xff")


def test_unreadable_block_list_fails_the_load(load: Load) -> None:
    """The unchanged package logs that, and continues with an empty block list."""
    checker = load(SAFE, unreadable)
    with pytest.raises(GuardrailFailed, match="the block list has no words"):
        strict(checker)


def test_missing_or_unknown_part_fails_the_load(load: Load) -> None:
    checker = load(SAFE)
    whole = checker.text_guardrail.safety_models
    for models, found in (
        (whole[:1], "Blocklist, not by"),
        ([], "nothing, not by"),
        ([*whole, np.zeros(1)], "ndarray"),
    ):
        checker.text_guardrail.safety_models = models
        with pytest.raises(GuardrailFailed, match=found):
            strict(checker)
    checker.text_guardrail.safety_models = whole
    checker.video_guardrail.safety_models = [np.zeros(1)]
    with pytest.raises(GuardrailFailed, match="outputs: they are checked by ndarray"):
        strict(checker)
    checker.video_guardrail.safety_models, checker.video_guardrail.postprocessors = [], []
    with pytest.raises(GuardrailFailed, match="nothing is there that blurs faces"):
        strict(checker)
