"""Scenes and questions that are kept for the evaluation are never drawn for the training."""

from dataclasses import fields

import numpy as np

from training.sizes import HELD_OUT_RATES, HELD_OUT_SIZES, draw_rate, draw_size
from training.wordings import HELD_OUT, TRAINED


def test_held_out_wordings_are_not_used_in_training() -> None:
    for field in fields(TRAINED):
        trained, held_out = getattr(TRAINED, field.name), getattr(HELD_OUT, field.name)
        assert trained and held_out
        assert not {one.lower() for one in trained} & {one.lower() for one in held_out}, field.name


def test_held_out_sizes_and_rates_are_not_drawn_and_all_others_are_even_and_in_range() -> None:
    random = np.random.default_rng(0)
    sizes = {draw_size(random) for _ in range(20_000)}

    assert not sizes & set(HELD_OUT_SIZES)
    assert not {draw_rate(random) for _ in range(2000)} & set(HELD_OUT_RATES)
    assert all(side % 2 == 0 and 158 <= side <= 642 for size in sizes for side in size)
    assert min(width / height for width, height in sizes) < 0.6
    assert max(width / height for width, height in sizes) > 2.2
