"""How busy a GPU was in each second of a measurement."""

import pytest

from benchmarks.gpu_usage import GpuUsage


def test_each_second_has_the_mean_of_its_samples_or_none() -> None:
    usage = GpuUsage()
    usage._samples = [(at, [busy, 300.0]) for at, busy in ((100.5, 0.0), (100.75, 50.0), (101.5, 100.0), (103.6, 30.0))]
    assert usage.busy_by_second() == [25, 100, None, 30]


def test_idle_seconds_are_those_between_two_times() -> None:
    usage = GpuUsage()
    usage._samples = [(at, [busy, 300.0]) for at, busy in ((9.0, 0.0), (10.0, 100.0), (11.0, 80.0), (12.1, 0.0))]
    assert usage.idle_seconds(10.0, 12.0) == pytest.approx(0.2)
    assert usage.idle_seconds(12.2, 13.0) is None


def test_without_a_gpu_there_are_no_seconds() -> None:
    assert GpuUsage().busy_by_second() == []
