"""A stand-in for guardrails: a text that says `forbidden` is."""

from typing import Any


def run_text_guardrail(prompt: str, runner: Any) -> bool:
    assert runner == "text guardrail"
    return "forbidden" not in prompt
