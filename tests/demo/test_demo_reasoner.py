"""The demo model, through the product's engine: it is right about clips that it has not seen."""

import hashlib
from importlib.resources import files
from pathlib import Path

from training.evaluate import answer_items

MODEL = Path(str(files("cosmos_batch.demo"))) / "reasoner"
MEGABYTE = 1_000_000


def test_the_weights_are_those_of_the_card_and_small() -> None:
    weights = MODEL / "model.safetensors"

    assert hashlib.sha256(weights.read_bytes()).hexdigest() in (MODEL / "README.md").read_text(encoding="utf-8")
    assert weights.stat().st_size < 25 * MEGABYTE


def test_most_answers_about_unseen_clips_are_true() -> None:
    """Every kind of question twice; the card has the accuracy on two thousand clips."""
    results = answer_items(MODEL, list(range(22)), threads=2)

    wrong = [one for one in results if not one.right]
    assert len(wrong) <= 3, wrong
