"""Computing how many workers a pipeline needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosmos_batch.catalogue.hardware import INSTANCE_TYPES
from cosmos_batch.catalogue.pipelines import PIPELINES
from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.contract.job import Job
from cosmos_batch.planning.pace import first_seconds_per_unit, narrowed, weight_of
from cosmos_batch.state import PipelineRow
from lambdas.scaling.worker_count import backlog_seconds, wanted_by_pipeline, wanted_workers
from tests.support.generations import settled
from tests.support.jobs import make_job

COMPUTE = DeployedCompute(
    id="cosmos-reason2-2b",
    queue_url="https://queue",
    job_queue="queue",
    job_definition="definition",
    max_workers=16,
    vcpus=12,
    max_life_hours=24,
    gpu="H100",
)


def wanted(jobs: int, live: int = 0, job_seconds: float = 10, cold: float = 100, drain: float = 600, limit=8) -> int:
    return wanted_workers(jobs, jobs * job_seconds, live, cold, drain, limit)


@pytest.mark.parametrize(
    ("backlog", "live", "expected"),
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
def test_the_backlog_decides_how_many_workers_are_wanted(backlog: int, live: int, expected: int) -> None:
    assert wanted(backlog, live) == expected


def test_no_worker_is_wanted_whose_cold_start_outlasts_the_work() -> None:
    # 40 jobs of 10 s: 200 s for two workers.
    assert wanted(40, 2, cold=199, drain=60) == 7
    assert wanted(40, 2, cold=200, drain=60) == 2


def test_an_item_cannot_be_shared() -> None:
    assert wanted(2, job_seconds=5000) == 2


@given(st.integers(0, 10**6), st.integers(0, 50), st.floats(0.001, 1e4), st.floats(0, 1e4), st.integers(1, 40))
def test_the_wanted_workers_are_within_their_limits(
    backlog: int, live: int, job_seconds: float, cold: float, limit: int
) -> None:
    assert (backlog > 0) <= wanted(backlog, live, job_seconds, cold, limit=limit) <= min(limit, backlog)


class TestPace:
    def test_before_any_measurement_one_file_and_a_thousand_each_want_one_worker(self) -> None:
        """A thousand clips take 76 s on an H100, and 295 s on an L40S."""
        for gpu in ("H100", "L40S"):
            compute = COMPUTE.model_copy(update={"gpu": gpu})
            assert [wanted_by_pipeline(compute, PipelineRow(), jobs, 0, 600) for jobs in (1, 1000)] == [1, 1]

    def test_a_quiet_hour_does_not_make_ten_thousand_files_want_fifteen_workers(self) -> None:
        """An answer takes 0.9 s with one job in flight and 0.076 s in a full batch: two workers suffice."""
        quiet = narrowed(first_seconds_per_unit("cosmos-reason2-2b", "H100", 1), 0.9, in_flight=1, places=256)
        assert wanted_by_pipeline(COMPUTE, PipelineRow(seconds_per_unit=quiet), 10_000, 0, 600) == 2

    def test_a_measured_pace_replaces_the_estimate(self) -> None:
        assert narrowed(0.076, 0.5, in_flight=256, places=256) == 0.5
        assert narrowed(0.076, 0.02, in_flight=256, places=256) == 0.02

    def test_a_guess_that_a_quiet_hour_contradicts_is_corrected(self) -> None:
        """One job in flight takes 40 s, so a worker with two places takes between 20 and 40 s for each."""
        assert narrowed(10, 40, in_flight=1, places=2) == 20
        assert narrowed(100, 40, in_flight=1, places=2) == 40

    def test_more_jobs_in_hand_than_places_are_a_full_batch(self) -> None:
        assert narrowed(1, 4, in_flight=3, places=2) == 4

    def test_a_worker_with_several_gpus_is_faster_than_a_worker_with_one(self) -> None:
        """NVIDIA published these times for Nano at 720p: 202 s on one H100, 63 s on four, 38 s on eight."""
        one, four, eight = (first_seconds_per_unit("cosmos3-nano", "H100", gpus) for gpus in (1, 4, 8))
        assert one / four == pytest.approx(202 / 63, rel=0.1)
        assert one / eight == pytest.approx(202 / 38, rel=0.1)

    def test_each_pipeline_has_a_guess_for_each_kind_of_gpu(self) -> None:
        kinds = {instance_type.gpu for instance_type in INSTANCE_TYPES.values()}
        assert all(first_seconds_per_unit(pipeline.id, gpu, 1) > 0 for pipeline in PIPELINES for gpu in kinds)


class TestWeight:
    NANO = COMPUTE.model_copy(update={"id": "cosmos3-nano"})

    def test_a_generation_weighs_its_volume_with_the_share_of_attention_its_steps_and_passes(self) -> None:
        parameters = {"resolution": "480p", "numFrames": 93, "steps": 20}
        job = a_generation(**parameters, guidanceScale=6)
        volume = 736 * 544 / 1e6 * 93
        assert weight_of(job) == pytest.approx(volume * (1 + volume / 114) * 20 * 2, rel=0.02)
        assert weight_of(a_generation(**parameters, guidanceScale=1)) == pytest.approx(weight_of(job) / 2)

    @pytest.mark.parametrize(("width", "height", "seconds"), [(320, 192, 7.22), (832, 480, 56.7), (1280, 720, 202.29)])
    def test_the_first_pace_of_nano_is_that_of_videos_measured_on_an_h100(
        self, width: int, height: int, seconds: float
    ) -> None:
        """From docs/benchmarks.md: the first two were measured here, the third by NVIDIA."""
        job = a_generation(width=width, height=height, numFrames=189, steps=35, guidanceScale=6)
        expected = weight_of(job) * first_seconds_per_unit("cosmos3-nano", "H100", 1)
        assert expected == pytest.approx(seconds, rel=0.2)

    def test_large_jobs_want_more_workers_than_as_many_small_jobs(self) -> None:
        small = PipelineRow(waiting_jobs=40, waiting_weight=40 * 400)
        large = PipelineRow(waiting_jobs=40, waiting_weight=40 * 31_000)
        assert wanted_by_pipeline(self.NANO, small, 40, 0, 600) == 1
        assert wanted_by_pipeline(self.NANO, large, 40, 0, 600) == 14

    def test_the_backlog_is_the_number_of_queued_jobs_times_the_average_weight(self) -> None:
        """A hundred jobs of commit 0f4e7e0 are in no total, and count with the average weight of the others."""
        row = PipelineRow(waiting_jobs=10, waiting_weight=20, seconds_per_unit=3)
        assert backlog_seconds(COMPUTE, row, 110) == 110 * 2 * 3

    @pytest.mark.parametrize(("jobs", "weight"), [(0, 0), (-1, -7.0), (1, -7.0)])
    def test_totals_that_cannot_be_are_not_believed(self, jobs: int, weight: float) -> None:
        row = PipelineRow(waiting_jobs=jobs, waiting_weight=weight, seconds_per_unit=3)
        assert backlog_seconds(COMPUTE, row, 10) == 30


def a_generation(**parameters: object) -> Job:
    return make_job("job").model_copy(update={"generation": settled(parameters)})
