"""What an engine gave back and nobody asked for is not delivered."""

import pytest

from cosmos_batch.contract.error import Failure
from cosmos_batch.contract.generation.outcomes import blocked, refuse_actions, refuse_picture
from cosmos_batch.contract.generation.sizes import Size
from tests.contract.generations import settled


def test_one_frame_when_189_were_asked_for() -> None:
    asked = settled()
    refuse_picture(asked, Size(1280, 720), 189)
    with pytest.raises(Failure, match="1 frames instead of 189; nothing was delivered") as raised:
        refuse_picture(asked, Size(1280, 720), 1)
    assert (raised.value.error.code, raised.value.error.retryable) == ("EngineFailed", True)
    with pytest.raises(Failure, match="48x64 pixels instead of 1280x720"):
        refuse_picture(asked, Size(48, 64), 189)


def test_actions_of_another_shape() -> None:
    asked = settled({"mode": "policy", "domain_name": "umi"}, medium="image")
    refuse_actions(asked, [[0.0] * 10] * 16)
    for rows in ([[0.0] * 10] * 15, [[0.0] * 64] * 16, []):
        with pytest.raises(Failure, match="instead of 16 of 10"):
            refuse_actions(asked, rows)
    refuse_actions(settled(), [])


def test_a_block_says_what_was_refused_and_not_why() -> None:
    assert [blocked(what).error.code for what in ("prompt", "output")] == ["Blocked", "Blocked"]  # type: ignore[arg-type]
    assert "refused the prompt" in blocked("prompt").error.message
    assert "refused the output" in blocked("output").error.message
