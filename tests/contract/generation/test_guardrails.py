"""The errors of jobs that guardrails refuse."""

from cosmos_batch.contract.generation.guardrails import blocked


def test_the_error_names_what_was_refused_and_gives_no_reason() -> None:
    assert blocked("prompt").error.code == blocked("output").error.code == "Blocked"
    assert "refused the prompt" in blocked("prompt").error.message
    assert "refused the output" in blocked("output").error.message
    assert not blocked("prompt").error.retryable
