"""Quantiles of durations are computed from counts by class."""

import pytest

from lambdas.runs import duration_histogram


def test_quantiles_follow_from_counts_by_class() -> None:
    counts: dict[str, int] = {}
    for seconds in range(1, 101):
        counts = duration_histogram.added(counts, {duration_histogram.class_of(seconds): 1})
    quantiles = duration_histogram.quantiles(counts)
    assert quantiles["p50"] == pytest.approx(50, rel=0.03)
    assert quantiles["p99"] == pytest.approx(99, rel=0.03)
    assert quantiles["max"] == pytest.approx(100, rel=0.03)
    assert duration_histogram.quantiles({}) == {}
