"""A stand-in for the guardrail of prompts, which refuses a text with a word of the block list."""

from cosmos_framework.auxiliary.guardrail.common.core import GuardrailRunner


def run_text_guardrail(prompt: str, guardrail_runner: GuardrailRunner) -> bool:
    return guardrail_runner.run_safety_check(prompt)[0]
