"""A stand-in for guardrails: a text that has a word of the block list is refused."""

from cosmos_framework.auxiliary.guardrail.common.core import GuardrailRunner


def run_text_guardrail(prompt: str, runner: GuardrailRunner) -> bool:
    return runner.run_safety_check(prompt)[0]
