"""Distilled models are recognized by their names."""

import pytest

from cosmos_batch.catalogue.distillation import fixed_steps_of, lacks_number_of_steps


@pytest.mark.parametrize(
    ("model", "steps"),
    [
        ("nvidia/Cosmos3-Super-Text2Image-4Step", 4),
        ("/models/Cosmos3-Super-Image2Video-4step/", 4),
        ("nvidia/Cosmos3-Super-Text2Image-4Step@main", 4),
        ("Cosmos3_8_Steps", 8),
    ],
)
def test_distilled_models_are_recognized_by_name(model: str, steps: int) -> None:
    assert fixed_steps_of(model) == steps and not lacks_number_of_steps(model)


@pytest.mark.parametrize("model", ["nvidia/Cosmos3-Super-Text2Image", "/4Step/Cosmos3-Nano", "me/Footstep-Nano"])
def test_other_models_are_not_taken_for_distilled_models(model: str) -> None:
    assert fixed_steps_of(model) is None and not lacks_number_of_steps(model)


def test_a_distilled_model_may_keep_its_number_of_steps_to_itself() -> None:
    assert fixed_steps_of("me/Cosmos3-Nano-Distilled") is None and lacks_number_of_steps("me/Cosmos3-Nano-Distilled")
