"""Items of a run that are not fed yet count towards the number of workers."""

import pytest

from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.state import FedItems, RunFeeding, RunRow, Runs, Workers
from lambdas.scaling.unfed_jobs import jobs_to_come, unfed_jobs
from tests.lambdas.cloud import DEFINITION, JOB_QUEUE, SMALL, Cloud
from tests.lambdas.scaling.pipeline_steps import SWEEP, enqueue, nudge

OTHER = "cosmos-reason2-8b"


def run_row(**values: object) -> RunRow:
    row = {"id": "r1", "state": "RUNNING", "pipelines": [SMALL], "items": 1000, "started_at": "2026-11-01T00:00:00Z"}
    return RunRow.model_validate({**row, **values})


@pytest.mark.parametrize(
    ("run", "fed", "expected"),
    [
        (run_row(), FedItems(), 0),  # how many are answered already is not known before anything is fed
        (run_row(), FedItems(items=250, needed=250), 750),
        (run_row(), FedItems(items=250, needed=125), 375),
        (run_row(), FedItems(items=250, needed=0), 0),
        (run_row(), FedItems(items=1250, needed=1250), 0),
        (run_row(pipelines=[SMALL, OTHER]), FedItems(items=250, needed=250), 250),
        (run_row(max_dollars=10.0, charged_dollars=4.0), FedItems(items=250, needed=250), 60),
        (run_row(max_dollars=10.0, charged_dollars=11.0), FedItems(items=250, needed=250), 0),
        (run_row(max_dollars=1000.0), FedItems(items=250, needed=250), 750),
    ],
)
def test_as_many_jobs_come_as_needed_one_so_far_and_the_budget_allows(
    run: RunRow, fed: FedItems, expected: int
) -> None:
    assert jobs_to_come(run, fed, job_dollars=0.1) == expected


@pytest.fixture
def run(cloud: Cloud) -> Runs:
    """Return a run over 1,000 items, of which a quarter has been fed and each of these needed a job."""
    runs = Runs(cloud.table)
    runs.create(run_row())
    RunFeeding(cloud.table).add("r1", SMALL, items=250, needed=250)
    return runs


@pytest.mark.usefixtures("deployed_scale")
class TestScale:
    """`scale` with 10 jobs of 20 ms in the queue, which want one worker, and 750 that are not fed yet."""

    @pytest.fixture(autouse=True)
    def pace(self, workers: Workers) -> None:
        workers.measured(seconds_per_unit=0.02, cold_start_seconds=1)

    def test_the_unfed_items_of_a_running_run_start_workers(self, cloud: Cloud, run: Runs) -> None:
        enqueue(cloud, 10)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 2, "15.2 s of work are to be done in 10 s"

    @pytest.mark.parametrize("stop", ["hold", "cancel", "fail"])
    def test_the_items_of_a_run_that_was_stopped_start_none(self, cloud: Cloud, run: Runs, stop: str) -> None:
        getattr(run, stop)("r1", "The budget is spent.")
        enqueue(cloud, 10)
        nudge(SWEEP)
        assert len(cloud.batch.submitted) == 1

    def test_an_empty_queue_starts_no_worker_for_a_run_that_nobody_feeds(self, cloud: Cloud, run: Runs) -> None:
        nudge(SWEEP)
        assert cloud.batch.submitted == []


def compute_of(pipeline: str) -> DeployedCompute:
    return DeployedCompute(
        id=pipeline,
        queue_url="https://queue",
        job_queue=JOB_QUEUE,
        job_definition=DEFINITION,
        max_workers=4,
        vcpus=12,
        max_life_hours=24,
    )


def test_each_pipeline_counts_what_it_was_fed_itself(cloud: Cloud) -> None:
    Runs(cloud.table).create(run_row(pipelines=[SMALL, OTHER]))
    RunFeeding(cloud.table).add("r1", SMALL, items=250, needed=250)
    RunFeeding(cloud.table).add("r1", OTHER, items=250, needed=0)
    assert unfed_jobs(cloud.table, compute_of(SMALL)) == 250
    assert unfed_jobs(cloud.table, compute_of(OTHER)) == 0
