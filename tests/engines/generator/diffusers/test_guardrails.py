"""Guardrails of Diffusers' pipelines: what they see, what they block, and what they cannot judge."""

import logging
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.guardrails import Checks
from cosmos_batch.engines.generator.diffusers.checkpoint import LoadedGuardrails
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from cosmos_batch.engines.strict_guardrails import make_strict
from tests.engines.generator.diffusers.conftest import FOLLOWED, PLAIN, Make
from tests.guardrail_files import FORBIDDEN
from tests.guardrail_runners import CORNER, GREY, Checker
from tests.support.generator_jobs import PROMPT, SMALL, frames, refused

BOTH = pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])


def test_guardrails_that_are_not_here_refuse_before_work(make: Make) -> None:
    told: list[tuple[int, int]] = []
    error = refused(make, {"mode": "t2i", **SMALL}, guardrails=True, progress=lambda *step: told.append(step))
    assert error.code == "EngineFailed" and error.message.startswith("Diffusers has no guardrails here")
    assert "cosmos_guardrail" in error.remedy
    assert told == []


@pytest.fixture
def checker(engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch) -> Checker:
    """Of an engine as it is where guardrails were loaded: only their models are stand-ins."""
    from diffusers.pipelines.cosmos import pipeline_cosmos3_omni

    checker = Checker([FORBIDDEN])
    guardrails = LoadedGuardrails(checker, "stand-in 1")
    make_strict(checker.text_guardrail, checker.video_guardrail, guardrails.verdicts.__setitem__)
    assert engine._checkpoint is not None
    monkeypatch.setattr(pipeline_cosmos3_omni, "CosmosSafetyChecker", Checker)
    monkeypatch.setattr(engine._checkpoint.omni, "safety_checker", checker)
    monkeypatch.setattr(engine._checkpoint.modular, "safety_checker", checker, raising=False)
    monkeypatch.setattr(engine, "_checkpoint", replace(engine._checkpoint, guardrails=guardrails))
    return checker


@BOTH
def test_guardrails_see_prompt_and_output(make: Make, checker: Checker, clip: Path, said: dict[str, Any]) -> None:
    medium = clip if said is FOLLOWED else None
    made = make(said, medium, guardrails=True, prompt=PROMPT)
    [seen] = checker.text_guardrail.seen
    assert seen.startswith(PROMPT) and checker.video_guardrail.seen == [(5, 48, 64, 3)]
    corner = frames(made.video)[:, : CORNER - 4, : CORNER - 4].astype(int)
    assert np.abs(corner - GREY).max() <= 8, "faces would be blurred: what comes back is delivered"
    assert made.made.checks == Checks(by="stand-in 1", prompt="passed", output="facesBlurred")
    unchecked = make(said, medium, guardrails=False)
    assert len(checker.text_guardrail.seen) == 1 and unchecked.made.checks == Checks()


def test_guardrails_that_are_never_asked_have_said_nothing(
    make: Make, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diffusers passes by a checker that is no instance of its own class, without a word."""
    from diffusers.pipelines.cosmos import pipeline_cosmos3_omni

    make(PLAIN, guardrails=True)
    monkeypatch.setattr(pipeline_cosmos3_omni, "CosmosSafetyChecker", DiffusersEngine)
    assert make(PLAIN, guardrails=True).made.checks == Checks(by="stand-in 1"), "nor of the job before"
    assert len(checker.text_guardrail.seen) == 1


def blocked_or_not(make: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> Failure:
    logging.getLogger("diffusers").addHandler(caplog.handler)
    with pytest.raises(Failure) as raised:
        make()
    assert PROMPT not in "".join(traceback.format_exception(raised.value)) + caplog.text
    return raised.value


@BOTH
@pytest.mark.parametrize(("word", "what"), [(FORBIDDEN, "the prompt"), ("unseemly", "the output")])
def test_what_guardrails_block_is_said_without_the_prompt(
    make: Make,
    checker: Checker,
    clip: Path,
    said: dict[str, Any],
    word: str,
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    medium = clip if said is FOLLOWED else None
    failure = blocked_or_not(lambda: make(said, medium, guardrails=True, prompt=f"{PROMPT} {word}"), caplog)
    assert failure.error.code == "Blocked" and what in failure.error.message


@BOTH
@pytest.mark.parametrize("what", ["the prompt", "the output"])
def test_what_guardrails_cannot_judge_ends_the_job_and_says_so(
    make: Make, checker: Checker, clip: Path, said: dict[str, Any], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As they come, they take an answer without a label for safe."""
    checker.video_guardrail.broken = what == "the output"
    prompt = f"{PROMPT} unlabelled" if what == "the prompt" else PROMPT
    medium = clip if said is FOLLOWED else None
    failure = blocked_or_not(lambda: make(said, medium, guardrails=True, prompt=prompt), caplog)
    assert failure.error.code == "EngineFailed" and f"could not judge {what}" in failure.error.message
    assert "Nothing was delivered" in failure.error.message
