"""The benchmarks of runs: a scaled-down simulation, the prices of calls, and what counts as exact."""

import pytest

from benchmarks.results import kept
from benchmarks.runs_cost import SMALLER, per_million, price_of, priced_units, run_rows, single_rows
from benchmarks.runs_deployment import RunTables
from benchmarks.runs_simulation import RunOutcome, RunSimulation
from benchmarks.runs_simulation_plan import compare, pace_of_another_run
from benchmarks.runs_simulation_results import IDLE_LIMIT, LIMITS, PLAN_LIMIT, peaks
from cosmos_batch.catalogue.prices import PRICES
from cosmos_batch.planning.runs.service_costs import orchestration_dollars

ITEMS, WORKERS = 50_000, 16


@pytest.fixture(scope="module")
def outcome() -> RunOutcome:
    return RunSimulation(ITEMS, WORKERS).run()


def test_every_item_of_a_simulated_run_ends_although_workers_are_lost(outcome: RunOutcome) -> None:
    _, live, left = outcome.workers[-1]
    assert outcome.lost > 0 and outcome.repeated > 0
    assert (live, left) == (0, 0)


def test_the_workers_of_a_simulated_run_are_hardly_ever_idle(outcome: RunOutcome) -> None:
    assert outcome.most == WORKERS
    assert outcome.steady.idle <= IDLE_LIMIT * outcome.steady.ready


def test_a_simulated_run_of_16_workers_keeps_the_limits_of_aws(outcome: RunOutcome) -> None:
    found = peaks(outcome)
    assert set(found) == set(LIMITS)
    assert not [name for name, number in found.items() if number > LIMITS[name][0]]


def test_the_plan_of_a_simulated_run_is_close_to_what_it_takes(outcome: RunOutcome) -> None:
    _, hours_off, dollars_off = compare(outcome, pace_of_another_run())
    assert abs(hours_off) <= PLAN_LIMIT and abs(dollars_off) <= PLAN_LIMIT


def test_each_kind_of_call_has_its_price() -> None:
    assert price_of("s3:PutObject") == "s3.put" and price_of("s3:GetObjectVersion") == "s3.get"
    assert price_of("dynamodb:UpdateItem") == "dynamodb.write" and price_of("dynamodb:Query") == "dynamodb.read"
    assert price_of("ssm:GetParameters") is None
    with pytest.raises(AssertionError, match="no price is known for braket:CreateJob"):
        price_of("braket:CreateJob")


def test_the_price_of_an_item_is_the_sum_of_its_calls_functions_and_transitions() -> None:
    raw = {
        "units": {"Worker s3:PutObject": 200, "Worker sqs:DeleteMessage": 100, "Feed dynamodb:PutItem": 300},
        "functions": {"Feed requests": 1, "Feed GB-seconds": 2.0, "Upload requests": 10},
        "transitions": 4,
        "log_bytes": 1000,
    }
    rows = per_million(priced_units(raw, documents=100), items=100)
    assert rows["s3.put"] == pytest.approx((2.0, 10.0))
    assert rows["dynamodb.write"] == pytest.approx((3.0, 3 * PRICES["dynamodb.write"].of(1_000_000)))
    assert rows["sqs.request"][0] == (100 + 100 + 2 * 10) / 100, "events, and polls of the function, are requests too"
    assert rows["lambda.request"][0] == 0.11 and rows["states.transition"][0] == 0.04
    assert next(iter(rows)) == "s3.put", "the dearest comes first"


def test_a_run_is_exact_only_with_one_answer_and_one_document_for_each_good_item() -> None:
    assert RunTables(990, 10, 0, 0, 0, 990).is_exact(1000)
    assert not RunTables(990, 10, 0, 0, 1, 990).is_exact(1000)
    assert not RunTables(990, 10, 0, 0, 0, 991).is_exact(1000)
    assert not RunTables(989, 11, 0, 1, 0, 989).is_exact(1000)


def test_the_recorded_runs_gave_each_item_one_answer() -> None:
    rows = [*kept("runs-items").measured, *kept("runs-kills").measured]
    tables = [row.raw["table"] for row in rows if "table" in row.raw]
    assert len(tables) == 3, "a run, one under kills, and that once more"
    assert all(RunTables(**table).is_exact(10_000) for table in tables)


def test_the_recorded_kills_were_ten_of_all_kinds_and_no_answered_item_was_inferred_again() -> None:
    raw = {name: value for row in kept("runs-kills").measured for name, value in row.raw.items()}
    assert len(raw["killed"]) == 10
    assert {one["part"] for one in raw["killed"]} == {"command line", "map", "worker", "function"}
    assert raw["late"] == 0


def test_a_run_costs_a_fraction_of_an_execution_for_each_file() -> None:
    run, single = (sum(dollars for _, dollars in rows().values()) for rows in (run_rows, single_rows))
    assert run < single / 5


def test_the_plan_of_a_run_says_what_was_counted() -> None:
    counted = sum(dollars for _, dollars in run_rows(SMALLER).values())
    assert orchestration_dollars(1_000_000, 4000, table_only=False) == pytest.approx(counted, rel=0.05)
