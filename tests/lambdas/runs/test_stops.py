"""A run is cancelled, held or fails while its shards are fed, and goes on later."""

from typing import Any

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.contract.runs import ITEM_CANCELLED, ShardRef
from cosmos_batch.state import RunFeeding, Runs, count_item
from infra.constructs.function_errors import PASSING
from lambdas.clients import Throttled
from lambdas.reporting.refusal import refuse_queue
from lambdas.runs import finish
from lambdas.runs.collect import unfinished
from tests.lambdas.cloud import SMALL
from tests.lambdas.runs.conftest import RUN, RunFixture, run_sweep, sent_ids


@pytest.mark.parametrize("stop", ["cancelled", "failed"])
def test_a_feed_that_comes_too_late_leaves_no_shard_behind(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    reserve = Runs.reserve

    def stop_first(self: Runs, *arguments: Any) -> bool:
        if stop == "cancelled":
            bench.runs.cancel(RUN, "by a person")
            bench.finish()
        else:
            bench.finish(Error="States.Runtime", Cause="it broke")
        return reserve(self, *arguments)

    with monkeypatch.context() as late:
        late.setattr(Runs, "reserve", stop_first)
        bench.feed(ref)
    run = bench.runs.get(RUN)
    assert run is not None and (run.state, run.reservations) == (stop.upper(), {})
    assert (sent_ids(bench), {*bench.answered()}, bench.shard().state) == ([], {"shard-token"}, "SKIPPED")
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    assert (len(sent_ids(bench)), bench.shard().state) == (1, "RUNNING")


def test_answers_of_a_parked_shard_are_in_the_tables_if_its_run_is_cancelled(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.answer(sent_ids(bench)[0])
    bench.runs.hold(RUN, "no worker")
    bench.runs.shards.park(RUN, "00000")
    assert bench.collect(ref)["collected"] is False
    assert bench.finish()["summary"]["state"] == "HELD"
    bench.runs.begin(RUN, "arn:e2")
    bench.runs.cancel(RUN, "by a person")
    bench.finish("e2")
    assert (len(bench.lines("results")), len(bench.lines("errors"))) == (1, 1)


def test_a_shard_that_is_fed_again_after_a_cancel_counts_once_among_what_was_fed(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    feeding = RunFeeding(bench.cloud.table)
    bench.answer(sent_ids(bench)[0])
    bench.runs.cancel(RUN, "by a person")
    bench.finish()
    assert feeding.get(RUN, SMALL).items == 0, "its cancelled item is still to come if the run is resumed"
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    fed = feeding.get(RUN, SMALL)
    assert (fed.items, fed.needed) == (2, 1)


def test_a_shard_that_was_fed_twice_before_a_cancel_leaves_nothing_among_what_was_fed(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b", "c"))
    feeding = RunFeeding(bench.cloud.table)
    bench.answer(sent_ids(bench)[0])
    bench.runs.hold(RUN, "The budget of $5 would be exceeded.")
    bench.runs.shards.park(RUN, ref.shard)
    bench.finish()
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    assert bench.shard().jobs == 2, "the second feeding finds one item answered"
    bench.runs.cancel(RUN, "by a person")
    bench.finish("e2")
    fed = feeding.get(RUN, SMALL)
    assert (fed.items, fed.needed) == (0, 0)


def test_a_run_whose_lines_could_not_be_written_fails_until_they_are(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    summary = bench.finish()["summary"]
    assert (summary["state"], summary["succeeded"]) == ("FAILED", 1)
    assert "1 of its shards have no results yet" in summary["reason"]
    bench.prepare(execution="e2")
    bench.collect(ref)
    assert bench.finish("e2")["summary"]["state"] == "SUCCEEDED"
    assert [line.id for line in bench.lines("results")] == ["a"]


def test_a_run_whose_queue_no_worker_can_serve_is_held_and_resumed_without_a_failure(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    reason = Error(code="ModelUnavailable", message="No licence.", remedy="Accept it.")
    refuse_queue(bench.cloud.jobs_queue, reason, bench.cloud.table)
    assert (bench.answered(), sent_ids(bench)) == (["shard-token"], [])
    bench.collect(ref)
    summary = bench.finish()["summary"]
    assert (summary["state"], summary["failed"], summary["reason"]) == ("HELD", 0, "No licence. Accept it.")
    pipeline = bench.cloud.table.get(f"pipeline#{SMALL}", "pipeline")
    assert pipeline is not None and pipeline["waitingJobs"] == 0

    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    for job in sent_ids(bench):
        bench.answer(job)
    bench.collect(ref)
    summary = bench.finish("e2")["summary"]
    assert (summary["state"], summary["succeeded"]) == ("SUCCEEDED", 2)


def test_a_cancelled_run_that_is_resumed_while_it_is_finished_twice_loses_no_shard_of_its_new_execution(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The execution was stopped, so `finish_run` closes what it left; Lambda calls it twice, and one call is slow."""
    ref = bench.started(bench.items("a", "b"))
    bench.runs.cancel(RUN, "by a person")

    def resume_first(run: str, runs: Runs) -> Any:
        bench.runs.end(RUN, "arn:e1", "CANCELLED", "by a person")
        bench.prepare(execution="e2")
        bench.feed(ref, token="again", execution="e2")
        return unfinished(run, runs)

    with monkeypatch.context() as resumed:
        resumed.setattr(finish, "unfinished", resume_first)
        assert bench.finish(Error="Aborted", Cause="enough")["summary"] is None
    assert (bench.shard().state, bench.tokens()) == ("RUNNING", {"shard-token", "again"})
    for job in sent_ids(bench):
        bench.answer(job)
    run_sweep(bench)
    assert "again" in bench.answered()
    bench.collect(ref)
    summary = bench.finish("e2")["summary"]
    assert (summary["state"], summary["succeeded"]) == ("SUCCEEDED", 2)


def end_after_the_last_answer(bench: RunFixture, ref: ShardRef, execution: str) -> str:
    """Answer the job that was sent last, let an execution end the run, and return the run's state."""
    bench.answer(sent_ids(bench)[-1])
    bench.collect(ref)
    state: str = bench.finish(execution)["summary"]["state"]
    return state


def test_items_that_were_dropped_without_a_collect_are_asked_when_the_run_is_resumed_once_more(
    bench: RunFixture,
) -> None:
    ref = bench.started(bench.items("a", "b"))
    answered, dropped = sent_ids(bench)
    bench.runs.cancel(RUN, "by a person")
    closed = bench.jobs.close(dropped, Result(job_id=dropped, error=ITEM_CANCELLED), cancelled=True)
    assert closed is not None
    count_item(closed, bench.runs)
    bench.runs.end(RUN, "arn:e1", "CANCELLED", "by a person")
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    bench.answer(answered)
    bench.collect(ref)
    summary = bench.finish("e2")["summary"]
    assert (summary["state"], summary["succeeded"], summary["cancelled"]) == ("FAILED", 1, 1)
    assert summary["reason"].startswith("1 of its items were cancelled before it went on")
    bench.prepare(execution="e3")
    bench.feed(ref, token="once more", execution="e3")
    assert end_after_the_last_answer(bench, ref, "e3") == "SUCCEEDED"


def test_an_execution_that_is_started_while_a_cancelled_run_ends_waits_and_goes_on_with_it_then(
    bench: RunFixture,
) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.answer(sent_ids(bench)[0])
    bench.runs.cancel(RUN, "by a person")
    with pytest.raises(Throttled, match="has not ended yet"):
        bench.prepare(execution="e2")
    assert Throttled.__name__ in PASSING, "the state calls it for days"
    run_sweep(bench)
    bench.collect(ref)
    assert bench.finish()["summary"]["state"] == "CANCELLED"
    assert bench.prepare(execution="e2")["pipelines"]
    bench.feed(ref, token="again", execution="e2")
    assert end_after_the_last_answer(bench, ref, "e2") == "SUCCEEDED"


def test_a_run_that_is_cancelled_between_two_calls_for_its_execution_is_ended_by_that_execution(
    bench: RunFixture,
) -> None:
    bench.write(bench.items("a"))
    bench.prepare()
    bench.runs.cancel(RUN, "by a person")
    assert bench.prepare()["pipelines"] == []
    assert bench.finish()["summary"]["state"] == "CANCELLED"
