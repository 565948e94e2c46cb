"""Frame sizes are within the budget, and the same as those of the processor."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.pixel_budget import PixelBudget
from cosmos_batch.contract.error import Failure
from cosmos_batch.media.fitting import fit

SIDES = st.integers(16, 8000)
FRAMES = st.integers(1, 768)
BUDGET = PixelBudget(25_165_824, 768 * 32 * 32, 32)


@given(SIDES, SIDES, FRAMES)
def test_frames_stay_within_the_budget(width: int, height: int, frames: int) -> None:
    if max(width, height) > 200 * min(width, height):
        return
    fitted_width, fitted_height = fit(width, height, frames, BUDGET)
    assert fitted_width % 32 == fitted_height % 32 == 0
    assert min(fitted_width, fitted_height) >= 32
    # A narrow strip keeps one patch of height, whatever that makes of its width.
    if min(fitted_width, fitted_height) > 32:
        assert fitted_width * fitted_height * frames <= BUDGET.total
        assert fitted_width * fitted_height <= BUDGET.per_frame


@given(SIDES, SIDES, FRAMES)
def test_a_size_that_fits_is_not_changed_again(width: int, height: int, frames: int) -> None:
    if max(width, height) > 150 * min(width, height):
        return
    fitted = fit(width, height, frames, BUDGET)
    if fitted[0] * fitted[1] * frames <= BUDGET.total:
        assert fit(*fitted, frames, BUDGET) == fitted


@given(st.integers(64, 4000), st.integers(64, 4000))
def test_the_aspect_ratio_is_kept(width: int, height: int) -> None:
    fitted_width, fitted_height = fit(width, height, 1, BUDGET)
    if min(fitted_width, fitted_height) >= 320:
        assert fitted_width / fitted_height == pytest.approx(width / height, rel=0.11)


def test_an_extreme_aspect_ratio_is_refused() -> None:
    with pytest.raises(Failure, match="200 times"):
        fit(16_000, 40, 1, BUDGET)


def test_the_budget_follows_nvidias_rule() -> None:
    """`(max_model_len - max_tokens) * pixels_per_token * 0.9` caps the pixels, and so each frame."""
    assert BUDGET.within(1000, 2048).total == int(1000 * 2048 * 0.9)
    assert BUDGET.within(10**6, 2048) == BUDGET
    assert BUDGET.within(100, 1024).per_frame == int(100 * 1024 * 0.9)
