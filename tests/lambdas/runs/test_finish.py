"""Finishing a run: its summary, its state, its callback and its event, whatever ended its execution."""

import json

import pytest

from cosmos_batch.contract.error import Error, Failure
from cosmos_batch.contract.runs import RunSummary
from cosmos_batch.state import Callbacks, RunRow, Runs
from lambdas.handlers import finish_run
from lambdas.runs import finish
from lambdas.runs.shard_ends import park_shard
from tests.lambdas.cloud import STATE_BUCKET, sqs_batch
from tests.lambdas.runs.conftest import RUN, RunFixture


def summary(bench: RunFixture) -> RunSummary:
    body = bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key=f"runs/{RUN}/summary.json")["Body"].read()
    return RunSummary.model_validate_json(body)


def test_a_run_ends_with_a_summary_an_event_and_one_answer_to_its_caller(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare({"id": RUN, "callback": "callers-token"})
    bench.feed(ref)
    one, two = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    bench.answer(two, Error(code="InvalidInput", message="m", remedy="r"))
    bench.collect(ref)
    answer = bench.finish()
    assert (answer["error"], answer["summary"]["state"]) == (None, "SUCCEEDED")
    found = summary(bench)
    assert (found.succeeded, found.failed, found.errors_by_code) == (1, 1, {"InvalidInput": 1})
    assert (found.dollars, found.gpu_seconds, found.prompt_tokens) == (1.0, 4.0, 7)
    assert bench.answered() == ["callers-token"]
    [event] = bench.cloud.events.entries
    assert event["DetailType"] == "Cosmos Batch Run Ended"
    assert json.loads(event["Detail"])["id"] == RUN
    bench.finish()
    assert bench.answered() == ["callers-token"], "not a second time"
    assert list(bench.runs.active()) == []


def test_a_held_run_keeps_its_callers_token_for_its_end(bench: RunFixture) -> None:
    bench.write(bench.items("a"))
    bench.prepare({"id": RUN, "callback": "callers-token"})
    bench.runs.hold(RUN, "the budget")
    assert bench.finish()["summary"]["state"] == "HELD"
    assert bench.answered() == []
    assert Callbacks(bench.cloud.table).waiting(RUN) == "callers-token"


def test_a_run_that_is_cancelled_when_it_is_held_and_over_is_finished_by_another_execution(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare({"id": RUN, "callback": "callers-token"})
    bench.feed(ref)
    bench.answer(bench.sent()[0]["job"]["jobId"])
    bench.runs.hold(RUN, "the budget")
    park_shard(RUN, ref.shard, bench.runs, bench.jobs)
    bench.finish()
    assert bench.runs.cancel(RUN, "by a person").ended_at is None
    assert bench.prepare({"id": RUN, "finishCancelled": True}, execution="e2")["pipelines"] == []
    bench.finish("e2")
    assert (summary(bench).state, summary(bench).reason) == ("CANCELLED", "by a person")
    assert "callers-token" in bench.answered()
    assert [line.id for line in bench.lines("results")] == ["a"]
    assert json.loads(bench.cloud.events.entries[-1]["Detail"])["state"] == "CANCELLED"
    assert list(bench.runs.active()) == []


def test_an_execution_that_could_not_go_on_fails_its_run_and_closes_its_items(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    answer = bench.finish(Error="States.Runtime", Cause="it broke")
    assert answer["error"] == "Internal"
    assert summary(bench).state == "FAILED"
    assert bench.job_row(bench.sent()[0]["job"]["jobId"]).state == "FAILED"


def test_a_refusal_before_there_is_a_run_answers_the_caller_with_it(bench: RunFixture) -> None:
    Callbacks(bench.cloud.table).keep(RUN, "callers-token")
    refused = Failure("InvalidInput", "there is no run", "start one").error
    answer = bench.finish(Error="Failure", Cause=json.dumps({"errorMessage": refused.model_dump_json()}))
    assert (answer["error"], answer["summary"]) == ("InvalidInput", None)
    assert bench.answered() == ["callers-token"]


def test_an_earlier_execution_does_not_end_a_run_that_went_on(bench: RunFixture) -> None:
    bench.write(bench.items("a"))
    bench.prepare()
    bench.prepare(execution="e2")
    assert bench.finish("e1")["summary"] is None
    run = bench.runs.get(RUN)
    assert run is not None and run.state == "RUNNING"


def test_an_earlier_execution_that_sums_up_for_long_does_not_replace_the_summary_of_a_later_one(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.write(bench.items("a"))
    bench.prepare()
    bench.runs.hold(RUN, "the budget")
    sum_up = finish.summary_of

    def slowly(row: RunRow, runs: Runs) -> RunSummary:
        summed = sum_up(row, runs)
        monkeypatch.setattr(finish, "summary_of", sum_up)
        bench.prepare(execution="e2")
        bench.runs.hold(RUN, "another budget")
        bench.finish("e2")
        return summed

    monkeypatch.setattr(finish, "summary_of", slowly)
    assert bench.finish("e1")["summary"] is None
    assert summary(bench).reason == "another budget"


def test_a_stopped_execution_cancels_its_run(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    detail = {"name": "e1", "status": "ABORTED", "executionArn": "arn:e1", "cause": "enough"}
    event = {"detail": {**detail, "input": json.dumps({"run": {"id": RUN}})}}
    assert finish_run.handler(sqs_batch(event), None) == {"batchItemFailures": []}
    found = summary(bench)
    assert (found.state, found.cancelled) == ("CANCELLED", 1)
    assert "enough" in (found.reason or "")


def test_stopped_executions_of_single_files_are_ignored(bench: RunFixture) -> None:
    detail = {"name": "e1", "status": "ABORTED", "executionArn": "arn:e1", "input": '{"pipeline": "p"}'}
    assert finish_run.handler(sqs_batch({"detail": detail}, {"detail": {**detail, "input": None}}), None) == {
        "batchItemFailures": []
    }
