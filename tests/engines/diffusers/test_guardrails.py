"""Guardrails of Diffusers' pipelines: what they see, and what they block."""

import logging
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.engines.generator.diffusers.engine import DiffusersEngine
from tests.engines.diffusers.conftest import FOLLOWED, PLAIN, Make
from tests.engines.making import PROMPT, SMALL, frames, refused


def test_guardrails_that_are_not_here_refuse_before_work(make: Make) -> None:
    told: list[tuple[int, int]] = []
    error = refused(make, {"mode": "t2i", **SMALL}, guardrails=True, progress=lambda *step: told.append(step))
    assert error.code == "EngineFailed" and error.message.startswith("Diffusers has no guardrails here")
    assert "cosmos_guardrail" in error.remedy
    assert told == []


class StandIn:
    """A classifier in place of the guardrails' models; all around it is Diffusers' own."""

    def __init__(self, prompt: bool = True, output: bool = True) -> None:
        self.prompt, self.output = prompt, output
        self.seen: list[tuple[Any, ...]] = []

    def to(self, _device: object) -> None:
        pass

    def check_text_safety(self, prompt: str) -> bool:
        self.seen.append((prompt,))
        return self.prompt

    def check_video_safety(self, pixels: np.ndarray) -> np.ndarray | None:
        self.seen.append(pixels.shape)
        return np.full_like(pixels, 90) if self.output else None


@pytest.fixture
def guard(engine: DiffusersEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[[StandIn], StandIn]:
    """The engine as it is where guardrails were loaded."""
    from diffusers.pipelines.cosmos import pipeline_cosmos3_omni

    def guard(checker: StandIn) -> StandIn:
        assert engine._checkpoint is not None
        monkeypatch.setattr(pipeline_cosmos3_omni, "CosmosSafetyChecker", StandIn)
        monkeypatch.setattr(engine._checkpoint.omni, "safety_checker", checker)
        monkeypatch.setattr(engine._checkpoint.modular, "safety_checker", checker, raising=False)
        monkeypatch.setattr(engine, "_checkpoint", replace(engine._checkpoint, guardrails=True))
        return checker

    return guard


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
def test_guardrails_see_prompt_and_output(
    make: Make, guard: Callable[[StandIn], StandIn], clip: Path, said: dict[str, Any]
) -> None:
    medium = clip if said is FOLLOWED else None
    checker = guard(StandIn())
    made = make(said, medium, guardrails=True, prompt=PROMPT)
    [seen], shape = checker.seen
    assert str(seen).startswith(PROMPT) and shape == (5, 48, 64, 3)
    assert (
        np.abs(frames(made.video).astype(int) - 90).max() <= 2
    )  # faces would be blurred: what comes back is delivered
    make(said, medium, guardrails=False)
    assert len(checker.seen) == 2


@pytest.mark.parametrize("said", [PLAIN, FOLLOWED], ids=["t2v", "transfer"])
@pytest.mark.parametrize("what", ["prompt", "output"])
def test_what_guardrails_block_is_said_without_the_prompt(
    make: Make,
    guard: Callable[[StandIn], StandIn],
    clip: Path,
    said: dict[str, Any],
    what: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard(StandIn(**{what: False}))
    logging.getLogger("diffusers").addHandler(caplog.handler)
    with pytest.raises(Failure) as raised:
        make(said, clip if said is FOLLOWED else None, guardrails=True, prompt=PROMPT)
    assert raised.value.error.code == "Blocked" and what in raised.value.error.message
    assert PROMPT not in "".join(traceback.format_exception(raised.value)) + caplog.text
