"""What a run's budget expects of a job: by its plan, then by its own jobs."""

from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.environment import DeployedCompute
from cosmos_batch.contract.runs import ItemEstimate
from cosmos_batch.state import Attempt, FedItems, ItemFacts, RunFeeding, RunRow, Workers
from lambdas.runs import objects
from lambdas.runs.budget import MEASURED_JOBS, expected_dollars
from tests.lambdas.cloud import SMALL, STATE_BUCKET, Cloud
from tests.lambdas.runs.conftest import RUN, RunFixture, sent_ids

HOUR = ItemEstimate(gpu_seconds={SMALL: 3600.0})
COMPUTE = DeployedCompute(
    id=SMALL, queue_url="https://queue", job_queue="q", job_definition="d", max_workers=4, vcpus=12, max_life_hours=24
)


def run_row(**gpu_seconds: float) -> RunRow:
    return RunRow(id=RUN, state="RUNNING", started_at="2026-11-01T00:00:00Z", item_gpu_seconds=gpu_seconds)


def dollars(cloud: Cloud, run: RunRow, fed: FedItems) -> float:
    return expected_dollars(run, fed, COMPUTE, Workers(cloud.table, SMALL))


def put_estimate(bench: RunFixture, run: str = RUN) -> None:
    key = f"runs/{run}/estimate.json"
    bench.cloud.s3.put_object(Bucket=STATE_BUCKET, Key=key, Body=HOUR.model_dump_json().encode())


def test_a_job_costs_what_the_plan_says_until_enough_jobs_of_the_run_have_ended(cloud: Cloud) -> None:
    planned = run_row(**{SMALL: 60.0})
    few = FedItems(ended_jobs=MEASURED_JOBS - 1, gpu_seconds=30.0 * (MEASURED_JOBS - 1))
    enough = FedItems(ended_jobs=MEASURED_JOBS, gpu_seconds=30.0 * MEASURED_JOBS)
    assert dollars(cloud, planned, few) == dollars(cloud, planned, FedItems()) > 0
    assert dollars(cloud, planned, enough) == pytest.approx(dollars(cloud, planned, few) / 2)


def test_jobs_that_failed_at_once_do_not_say_that_the_others_cost_nothing(cloud: Cloud) -> None:
    planned = run_row(**{SMALL: 60.0})
    assert dollars(cloud, planned, FedItems(ended_jobs=MEASURED_JOBS)) == dollars(cloud, planned, FedItems())


def test_without_a_plan_a_job_costs_what_the_last_ones_of_its_pipeline_took(cloud: Cloud) -> None:
    Workers(cloud.table, SMALL).measured(seconds_per_unit=60.0, cold_start_seconds=1)
    assert dollars(cloud, run_row(), FedItems()) == pytest.approx(dollars(cloud, run_row(**{SMALL: 60.0}), FedItems()))


def test_a_run_over_long_files_is_held_by_its_budget_before_any_has_ended(bench: RunFixture) -> None:
    """By the pace of the pipeline's last jobs, this shard would cost less than a cent."""
    ref = bench.write(bench.items("a", "b"), max_dollars=1.0)
    put_estimate(bench)
    bench.prepare()
    bench.feed(ref)
    run = bench.runs.get(RUN)
    assert run is not None and run.state == "HELD" and "with the next 2 items" in (run.reason or "")
    assert bench.sent() == []


def test_what_the_jobs_of_a_shard_took_is_counted_at_its_end(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    for message in bench.sent():
        bench.answer(message["job"]["jobId"])
    bench.collect(ref)
    bench.collect(ref)
    fed = RunFeeding(bench.cloud.table).get(RUN, SMALL)
    assert (fed.ended_jobs, fed.gpu_seconds) == (2, 4.0)


def test_a_shard_with_cancelled_items_tells_nothing_of_what_jobs_take(bench: RunFixture) -> None:
    bench.started(bench.items("a", "b"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.runs.cancel(RUN, "by a person")
    bench.finish()
    assert RunFeeding(bench.cloud.table).get(RUN, SMALL).ended_jobs == 0


def test_answers_of_an_earlier_run_are_no_jobs_of_this_one(bench: RunFixture) -> None:
    items = bench.items("a")
    first = bench.started_by_another(items)
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.collect(first)
    assert bench.collect(bench.started(items))["collected"]
    assert RunFeeding(bench.cloud.table).get(RUN, SMALL).ended_jobs == 0


def test_a_resumed_run_counts_the_jobs_that_were_paid_before_it_was_cancelled(bench: RunFixture) -> None:
    """Their GPU time would else be that of the few that were left."""
    ref = bench.started(bench.items("a", "b", "c"))
    *first, last = bench.sent()
    for message in first:
        bench.answer(message["job"]["jobId"])
    bench.runs.cancel(RUN, "by a person")
    bench.finish()
    bench.prepare(execution="e2")
    bench.feed(ref, token="resumed", execution="e2")
    bench.answer(last["job"]["jobId"])
    assert bench.collect(ref)["collected"]
    fed = RunFeeding(bench.cloud.table).get(RUN, SMALL)
    assert (fed.ended_jobs, fed.gpu_seconds) == (3, 6.0)


def test_items_that_no_worker_has_done_do_not_make_the_others_cheaper(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.collect(ref, Error="States.Timeout", Cause="It took ten days.")
    fed = RunFeeding(bench.cloud.table).get(RUN, SMALL)
    assert (fed.ended_jobs, fed.gpu_seconds) == (1, 2.0)


def test_a_run_whose_plan_may_not_be_looked_for_has_none(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 does not tell those who may not list a bucket that an object is missing."""
    refused = Mock(exceptions=bench.cloud.s3.exceptions)
    refused.get_object.side_effect = ClientError({"Error": {"Code": "AccessDenied", "Message": ""}}, "GetObject")
    monkeypatch.setattr(objects, "client", lambda _: refused)
    assert objects.RunObjects(STATE_BUCKET, RUN).estimate() == ItemEstimate()


def test_attempts_without_a_result_count_in_the_summary_and_against_the_budget(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    for job in sent_ids(bench):
        bench.jobs.open_attempt(job, Attempt(id="first", worker="w", solo=False))
        bench.jobs.undo_attempt(job, "first", ItemFacts(4.0, 1.0))
    bench.answer(sent_ids(bench)[0])
    bench.runs.cancel(RUN, "by a person")
    cancelled = bench.finish()["summary"]
    assert (cancelled["dollars"], cancelled["gpuSeconds"]) == (2.5, 10.0)
    bench.prepare(execution="e2")
    bench.feed(ref, token="resumed", execution="e2")
    bench.answer(sent_ids(bench)[-1])
    bench.collect(ref)
    assert bench.finish("e2")["summary"]["dollars"] == 3.0
    run = bench.runs.get(RUN)
    assert run is not None and (run.charged_dollars, bench.shard().dollars) == (3.0, 3.0)
