"""A guardrail's no."""

from cosmos_batch.contract.generation.guardrails import blocked


def test_a_block_says_what_was_refused_and_not_why() -> None:
    assert blocked("prompt").error.code == blocked("output").error.code == "Blocked"
    assert "refused the prompt" in blocked("prompt").error.message
    assert "refused the output" in blocked("output").error.message
    assert not blocked("prompt").error.retryable
