"""The demo model, through the product's engine: it is right about clips that it has not seen."""

import hashlib

import pytest

from cosmos_batch.demo import DEMO_REASON
from training.evaluate import answer_items

MEGABYTE = 1_000_000


def test_the_weights_are_those_of_the_card_and_small() -> None:
    weights = DEMO_REASON / "model.safetensors"

    assert hashlib.sha256(weights.read_bytes()).hexdigest() in (DEMO_REASON / "README.md").read_text(encoding="utf-8")
    assert weights.stat().st_size < 25 * MEGABYTE


@pytest.mark.timeout(1200)  # two busy cores
def test_most_answers_about_unseen_clips_are_true() -> None:
    """The card has the accuracy on two thousand clips."""
    results = answer_items(DEMO_REASON, list(range(14)), threads=2)

    wrong = [one for one in results if not one.right]
    assert len(wrong) <= 3, wrong
