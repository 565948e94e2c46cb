"""How many workers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.state import PipelineRow
from lambdas.scaling import wanted_workers


def pace(seconds_per_item: float = 10, cold_start_seconds: float = 100) -> PipelineRow:
    return PipelineRow(seconds_per_item=seconds_per_item, cold_start_seconds=cold_start_seconds)


@pytest.mark.parametrize(
    ("backlog", "live", "wanted"),
    [
        (0, 0, 0),
        (0, 3, 0),
        (1, 0, 1),
        (60, 0, 1),
        (61, 0, 2),
        (200, 0, 4),
        (10_000, 0, 8),
        (61, 1, 2),
        (200, 2, 4),
        # The live ones are done before a new one has started.
        (10, 1, 1),
        (80, 8, 2),
    ],
)
def test_wanted(backlog: int, live: int, wanted: int) -> None:
    assert wanted_workers(backlog, live, pace(), target_drain_seconds=600, most=8) == wanted


def test_no_worker_whose_cold_start_outlasts_the_work() -> None:
    # 40 items of 10 s: 200 s for two workers.
    assert wanted_workers(40, 2, pace(cold_start_seconds=199), target_drain_seconds=60, most=8) == 7
    assert wanted_workers(40, 2, pace(cold_start_seconds=200), target_drain_seconds=60, most=8) == 2


def test_an_item_cannot_be_shared() -> None:
    assert wanted_workers(2, 0, pace(seconds_per_item=5000), target_drain_seconds=600, most=8) == 2


def test_before_anything_was_measured_one_file_is_one_worker() -> None:
    assert wanted_workers(1, 0, PipelineRow(), target_drain_seconds=600, most=8) == 1
    assert wanted_workers(1, 1, PipelineRow(), target_drain_seconds=600, most=8) == 1


@given(st.integers(0, 10**6), st.integers(0, 50), st.floats(0.001, 1e4), st.floats(0, 1e4), st.integers(1, 40))
def test_always_within_bounds(backlog: int, live: int, item: float, cold: float, most: int) -> None:
    wanted = wanted_workers(backlog, live, pace(item, cold), target_drain_seconds=600, most=most)
    assert (backlog > 0) <= wanted <= min(most, backlog)
