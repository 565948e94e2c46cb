"""`scale` starts the right number of workers for five arrival patterns, in the simulation of the documented plot."""

from collections.abc import Iterator

import pytest

from benchmarks.simulation.plot import plot
from benchmarks.simulation.scaling import (
    PLOT,
    REASONER_ON_H100,
    Outcome,
    Pattern,
    Simulation,
    compute_of,
    patterns,
    steady,
)

ONE, THOUSAND, STEADY, MIXED, BURST = range(5)


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [Simulation(pattern).run() for pattern in patterns()]


def test_every_job_is_done_and_every_worker_leaves(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.finished_at > 0
        assert outcome.workers[-1][1:] == (0, 0)


def test_one_file_starts_one_worker(outcomes: list[Outcome]) -> None:
    assert (outcomes[ONE].started, outcomes[ONE].most) == (1, 1)


def test_a_thousand_files_are_the_work_of_one_worker(outcomes: list[Outcome]) -> None:
    """Five minutes of an L40S at a full batch: the start of a second one would take longer."""
    assert outcomes[THOUSAND].started == 1


def test_after_a_quiet_hour_ten_thousand_files_want_what_a_full_batch_needs(outcomes: list[Outcome]) -> None:
    """Two H100, as many as do them within the ten minutes that are the target; latency alone would ask for fifteen."""
    burst = outcomes[BURST]
    assert burst.most == 2
    assert burst.finished_at - 3600 < 15 * 60


def test_a_steady_stream_keeps_its_worker(outcomes: list[Outcome]) -> None:
    assert outcomes[STEADY].started == 1


def test_large_jobs_get_the_workers_that_their_weight_wants(outcomes: list[Outcome]) -> None:
    """240 generations weigh a million units: 20 workers for ten minutes, of which maxVCpus allows 12."""
    assert outcomes[MIXED].most == 12


def test_no_worker_is_started_where_a_worker_has_just_left(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.started == outcome.most, outcome.name


def test_the_pace_of_slower_jobs_is_learnt_while_they_are_done() -> None:
    """Each job takes forty times what the first guess says: more workers are started as soon as that is measured."""

    def heavy() -> Iterator[tuple[float, float]]:
        return ((at, 1.0) for at, _ in steady(0.1, 300))

    slow = type(REASONER_ON_H100)(places=272, alone=0.84 * 40, full=0.0722 * 40)
    compute = compute_of("cosmos-reason2-2b", "H100", 16)
    outcome = Simulation(Pattern("slow", slow, compute, "p5.4xlarge", heavy)).run()
    assert outcome.started > 4


def test_the_plot_in_the_documentation_is_the_plot_that_the_command_makes(outcomes: list[Outcome]) -> None:
    assert PLOT.read_text(encoding="utf-8") == plot(outcomes), "run: python -m benchmarks.simulation.scaling"
