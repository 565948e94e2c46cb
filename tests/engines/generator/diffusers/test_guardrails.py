"""Guardrails of Diffusers' pipelines: what they check, what they block, and what happens without a verdict."""

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
from tests.support.generator_jobs import PROMPT, SMALL, refused
from tests.support.guardrail_files import FORBIDDEN
from tests.support.guardrail_runners import CORNER, GREY, Checker
from tests.support.mp4 import pictures

BOTH = pytest.mark.parametrize("parameters", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])


def test_job_is_refused_before_any_work_without_guardrails(make: Make) -> None:
    steps: list[tuple[int, int]] = []
    error = refused(make, {"mode": "t2i", **SMALL}, guardrails=True, progress=lambda *step: steps.append(step))
    assert error.code == "EngineFailed" and error.message.startswith("Diffusers has no guardrails here")
    assert "cosmos_guardrail" in error.remedy
    assert steps == []


@pytest.fixture
def checker(engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch) -> Checker:
    """Give the loaded engine guardrails whose models are stand-ins, and return their checker."""
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
def test_guardrails_see_prompt_and_output(make: Make, checker: Checker, clip: Path, parameters: dict[str, Any]) -> None:
    medium = clip if parameters is FOLLOWED else None
    result = make(parameters, medium, guardrails=True, prompt=PROMPT)
    [seen] = checker.text_guardrail.seen
    assert seen.startswith(PROMPT) and checker.video_guardrail.seen == [(5, 48, 64, 3)]
    corner = pictures(result.video)[:, : CORNER - 4, : CORNER - 4].astype(int)
    assert np.abs(corner - GREY).max() <= 8, "the frames that the guardrails return must be delivered"
    assert result.output.checks == Checks(by="stand-in 1", prompt="passed", output="facesBlurred")
    unchecked = make(parameters, medium, guardrails=False)
    assert len(checker.text_guardrail.seen) == 1 and unchecked.output.checks == Checks()


def test_no_verdict_is_reported_if_diffusers_skips_the_guardrails(
    make: Make, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Diffusers silently skips a checker that is no instance of its own class."""
    from diffusers.pipelines.cosmos import pipeline_cosmos3_omni

    make(PLAIN, guardrails=True)
    monkeypatch.setattr(pipeline_cosmos3_omni, "CosmosSafetyChecker", DiffusersEngine)
    assert make(PLAIN, guardrails=True).output.checks == Checks(by="stand-in 1"), (
        "verdicts of the job before must not count"
    )
    assert len(checker.text_guardrail.seen) == 1


def failure_of(make: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> Failure:
    logging.getLogger("diffusers").addHandler(caplog.handler)
    with pytest.raises(Failure) as raised:
        make()
    assert PROMPT not in "".join(traceback.format_exception(raised.value)) + caplog.text
    return raised.value


@BOTH
@pytest.mark.parametrize(("word", "what"), [(FORBIDDEN, "the prompt"), ("unseemly", "the output")])
def test_blocked_job_does_not_quote_its_prompt(
    make: Make,
    checker: Checker,
    clip: Path,
    parameters: dict[str, Any],
    word: str,
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    medium = clip if parameters is FOLLOWED else None
    failure = failure_of(lambda: make(parameters, medium, guardrails=True, prompt=f"{PROMPT} {word}"), caplog)
    assert failure.error.code == "Blocked" and what in failure.error.message


@BOTH
@pytest.mark.parametrize("what", ["the prompt", "the output"])
def test_guardrail_without_verdict_fails_the_job(
    make: Make, checker: Checker, clip: Path, parameters: dict[str, Any], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without `make_strict`, the guardrails treat an answer without a label as safe."""
    checker.video_guardrail.broken = what == "the output"
    prompt = f"{PROMPT} unlabelled" if what == "the prompt" else PROMPT
    medium = clip if parameters is FOLLOWED else None
    failure = failure_of(lambda: make(parameters, medium, guardrails=True, prompt=prompt), caplog)
    assert failure.error.code == "EngineFailed" and f"could not judge {what}" in failure.error.message
    assert "Nothing was delivered" in failure.error.message
