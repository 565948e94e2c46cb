"""A worker measures its seconds for a unit of weight, independent of how many jobs are in hand."""

import pytest

from cosmos_batch.worker.pace import Pace, PaceMeter


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestPace:
    def test_without_an_answered_job_there_is_no_measure(self) -> None:
        clock = Clock()
        pace = PaceMeter(clock=clock)
        pace.began("refused")
        clock.now = 1
        pace.ended("refused")
        assert pace.measure is None

    def test_time_without_work_does_not_count(self) -> None:
        clock = Clock()
        pace = PaceMeter(clock=clock)
        for began, ended in ((0, 2), (100, 104)):
            clock.now = began
            pace.began(began)
            clock.now = ended
            pace.ended(began, weight=1)
        assert pace.measure == Pace(seconds_per_unit=3, in_flight=1)

    def test_a_first_full_batch_does_not_look_slow(self) -> None:
        """256 jobs take 17 s together. The first answers come after 17 s, but each used only 17/256 s of the worker."""
        clock = Clock()
        pace = PaceMeter(clock=clock)
        for job in range(256):
            pace.began(job)
        clock.now = 17
        for job in range(64):
            pace.ended(job, weight=1)
        measure = pace.measure
        assert measure is not None
        assert measure.in_flight == pytest.approx(256)
        assert measure.seconds_per_unit == pytest.approx(17 / 256)

    def test_jobs_count_by_their_weight(self) -> None:
        clock = Clock()
        pace = PaceMeter(clock=clock)
        for job, weight in enumerate((1, 9)):
            pace.began(job)
            clock.now += weight * 2
            pace.ended(job, weight=weight)
        assert pace.measure == Pace(seconds_per_unit=2, in_flight=1)

    def test_refused_jobs_do_not_make_a_worker_look_faster(self) -> None:
        clock = Clock()
        pace = PaceMeter(clock=clock)
        pace.began("answered")
        for job in range(50):
            pace.began(job)
            pace.ended(job)
        clock.now = 3
        pace.ended("answered", weight=1)
        assert pace.measure == Pace(seconds_per_unit=3, in_flight=1)
