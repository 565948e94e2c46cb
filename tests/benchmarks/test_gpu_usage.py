"""How busy a GPU was in each second of a measurement."""

from benchmarks.gpu_usage import busy_by_second


def test_each_second_has_the_mean_of_its_samples_or_none() -> None:
    samples = [(100.5, 0.0), (100.75, 50.0), (101.5, 100.0), (103.6, 30.0)]
    assert busy_by_second(samples) == [25, 100, None, 30]


def test_without_a_gpu_there_are_no_seconds() -> None:
    assert busy_by_second([]) == []
