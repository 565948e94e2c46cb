"""Collecting a shard: the lines of the tables, what was not counted, and shards that could not be waited for."""

from cosmos_batch.contract.error import Error
from tests.lambdas.cloud import SMALL
from tests.lambdas.runs.conftest import RUN, RunFixture

BAD = Error(code="InvalidInput", message="no video", remedy="r")


def test_results_and_errors_have_a_line_for_each_item(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b", "c"))
    one, two, three = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    bench.answer(two, BAD)
    assert [shard.shard for shard in bench.answer(three)] == ["00000"]
    assert bench.collect(ref) == {"shard": "00000", "collected": True}
    results, [error] = bench.lines("results"), bench.lines("errors")
    assert {line.id for line in results} | {error.id} == {"a", "b", "c"}
    assert {(line.answer, line.model, line.revision, line.dollars) for line in results} == {
        ("An answer.", "m", "c1", 0.5)
    }
    assert error.error is not None and error.error.code == "InvalidInput"
    shard = bench.shard()
    assert (shard.state, shard.errors, shard.prompt_tokens, shard.completion_tokens) == (
        "ENDED",
        {"InvalidInput": 1},
        14,
        6,
    )
    pipeline = bench.cloud.table.get(f"pipeline#{SMALL}", "pipeline")
    assert pipeline is not None and pipeline["waitingJobs"] == 0
    assert bench.collect(ref) == {"shard": "00000", "collected": True}, "it can be repeated"
    pipeline = bench.cloud.table.get(f"pipeline#{SMALL}", "pipeline")
    assert pipeline is not None and pipeline["waitingJobs"] == 0


def test_items_of_a_cancelled_run_are_closed_and_say_so(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    one, two = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    bench.runs.cancel(RUN, "by a person")
    bench.collect(ref)
    assert (bench.shard().succeeded, bench.shard().cancelled) == (1, 1)
    assert bench.job_row(two).state == "CANCELLED"
    [line] = bench.lines("errors")
    assert line.error is not None and line.error.code == "Cancelled"


def test_a_job_that_another_run_waits_for_is_not_closed(bench: RunFixture) -> None:
    items = bench.items("a")
    ref = bench.started(items)
    [job] = [message["job"]["jobId"] for message in bench.sent()]
    other = bench.write(items, run="other")
    bench.prepare({"id": "other"}, execution="e2")
    bench.feed(other, execution="e2")
    bench.runs.cancel(RUN, "by a person")
    bench.collect(ref)
    assert bench.shard().cancelled == 1
    assert bench.job_row(job).state == "PLANNED"
    bench.answer(job)
    assert bench.shard("other").succeeded == 1


def test_a_shard_whose_state_timed_out_fails_what_has_not_ended(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    one, two = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    bench.collect(ref, Error="States.Timeout", Cause="")
    assert (bench.shard().succeeded, bench.shard().failed) == (1, 1)
    assert bench.job_row(two).state == "FAILED"
    [line] = bench.lines("errors")
    assert line.error is not None and line.error.code == "TimedOut"


def test_another_execution_that_waits_for_a_shard_is_answered_when_the_first_one_gives_it_up(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    bench.prepare(execution="e2")
    bench.feed(ref, token="of-e2", execution="e2")
    bench.collect(ref, Error="States.Timeout", Cause="")
    assert (bench.shard().state, "of-e2" in bench.answered()) == ("ENDED", True)


def test_an_end_that_was_never_counted_is_counted(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    [job] = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(job)
    bench.cloud.table.update("run#my-run", "shard#00000", "SET #succeeded = :none REMOVE #ended", {"none": 0})
    bench.collect(ref, Error="States.Timeout", Cause="")
    assert (bench.shard().succeeded, len(bench.lines("results"))) == (1, 1)


def test_a_shard_that_was_not_fed_is_left_alone(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    assert bench.collect(ref)["collected"] is False


def test_a_shard_with_items_in_flight_is_left_to_the_execution_that_waits_for_it(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    assert bench.collect(ref)["collected"] is False
    assert (bench.shard().state, bench.job_row(bench.sent()[0]["job"]["jobId"]).state) == ("RUNNING", "PLANNED")
