"""Items that several runs, or two items of one run, share are one job, also when shards are fed at the same time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state.job_rows import MESSAGE_LIFE
from lambdas.runs import feed, item_messages
from lambdas.runs.objects import RunObjects
from tests.lambdas.cloud import SMALL, STATE_BUCKET
from tests.lambdas.runs.conftest import RUN, RunFixture, dies_at, run_sweep, sent_ids

PASSES = Error(code="EngineFailed", message="It crashed.", remedy="r", retryable=True)


def test_an_item_that_joined_a_job_that_was_never_sent_is_sent(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = bench.items("a")
    ref = bench.write(items)
    bench.prepare()
    dies_at(monkeypatch, item_messages, "_send", lambda: bench.feed(ref))
    assert sent_ids(bench) == []
    bench.started_by_another(items)
    assert len(sent_ids(bench)) == 1


def job_of_two_runs(bench: RunFixture) -> str:
    """Feed one item to two runs, and return the id of the job for which both wait."""
    items = bench.items("a")
    bench.started(items)
    bench.started_by_another(items)
    [job] = sent_ids(bench)
    return job


def test_a_message_that_was_lost_after_an_item_had_joined_is_sent_by_the_sweep(
    bench: RunFixture, stalled: None
) -> None:
    job = job_of_two_runs(bench)
    bench.jobs.unsent(job)
    run_sweep(bench)
    assert sent_ids(bench) == [job, job]
    run_sweep(bench)
    assert sent_ids(bench) == [job, job], "it was noted that it is sent"


def test_a_message_that_sqs_deletes_before_the_later_deadline_of_another_run_is_sent_again(
    bench: RunFixture, stalled: None
) -> None:
    """A run that joins a job may give it more time than SQS keeps the message that was sent for the first run."""
    job = job_of_two_runs(bench)
    table, now = bench.cloud.table, datetime.now(UTC)
    later = (now + timedelta(days=8)).isoformat()
    then = {"sent": (now - MESSAGE_LIFE + timedelta(minutes=10)).isoformat(), "later": later}
    table.update("job#" + job, "job", "SET #sentAt = :sent, #deadline = :later", then)
    run_sweep(bench)
    assert sent_ids(bench) == [job], "it is still in its queue"
    then = {"sent": (now - MESSAGE_LIFE).isoformat()}
    table.update("job#" + job, "job", "SET #sentAt = :sent", then)
    run_sweep(bench)
    assert sent_ids(bench) == [job, job]
    assert bench.job_row(job).state == "PLANNED"


def test_feeding_a_shard_twice_sends_nothing_twice(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.feed(ref, token="second")
    bench.feed(ref, token="third", execution="e2")
    assert len(sent_ids(bench)) == 2


def test_two_equal_items_of_a_run_are_one_job_with_one_document_and_are_paid_once(bench: RunFixture) -> None:
    [item] = bench.items("a")
    ref = bench.started([item, item.model_copy(update={"id": "twin"})])
    [job] = sent_ids(bench)
    [shard] = bench.answer(job)
    assert (shard.succeeded, shard.dollars) == (2, 0.5)
    bench.collect(ref)
    lines = bench.lines("results")
    assert {line.id for line in lines} == {"a", "twin"}
    assert (sum(line.dollars or 0 for line in lines), len({line.document for line in lines})) == (0.5, 1)


def test_an_answer_that_another_run_had_done_again_before_it_was_collected_keeps_its_line(bench: RunFixture) -> None:
    items = bench.items("a")
    ref = bench.started(items)
    [job] = sent_ids(bench)
    bench.answer(job, PASSES)
    bench.started_by_another(items)
    assert bench.job_row(job).state == "PLANNED", "the other run asks it again"
    bench.collect(ref)
    [line] = bench.lines("errors")
    assert line.error is not None and line.error.message == "It crashed."
    assert (line.dollars, bench.shard().errors) == (0.5, {"EngineFailed": 1})
    bench.answer(job)
    bench.collect(ShardRef(run="other", shard="00000", pipeline=SMALL, items=1))
    [line] = bench.lines("results", run="other")
    assert (line.answer, line.dollars, line.reused) == ("An answer.", 0.5, False)


def test_a_run_with_an_early_deadline_ends_its_item_and_leaves_the_job_to_the_other_run(
    bench: RunFixture, stalled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = bench.items("a")
    bench.started(items)
    bench.started_by_another(items)
    [job] = sent_ids(bench)
    table, row = bench.cloud.table, bench.job_row(job)
    assert row.deadline is not None
    table.update("job#" + job, "job", "SET #deadline = :later", {"later": "2100-01-01T00:00:00.000+00:00"})
    planned = RunObjects(STATE_BUCKET, RUN)
    [item] = planned.planned("e1", "00000") or [None]
    assert item is not None and item.job is not None
    past = item.job.model_copy(update={"deadline": item.job.created_at})
    planned.write_planned("e1", "00000", [item.model_copy(update={"job": past})])
    run_sweep(bench)
    assert (bench.shard().failed, bench.shard("other").done) == (1, 0)
    assert bench.job_row(job).state == "PLANNED"
    bench.collect(ShardRef(run=RUN, shard="00000", pipeline=SMALL, items=1))
    [line] = bench.lines("errors")
    assert line.error is not None and line.error.code == "TimedOut"
    [shard] = bench.answer(job)
    assert (shard.run, shard.succeeded) == ("other", 1)


def test_shards_that_are_fed_at_once_stay_within_the_budget(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    items = bench.items("a")
    bench.write(items, max_dollars=1.0)
    refs = [ShardRef(run=RUN, shard=f"{number:05}", pipeline=SMALL, items=1) for number in range(12)]
    for ref in refs:
        RunObjects(STATE_BUCKET, RUN).write_shard(ref.shard, items[0].model_dump_json().encode())
    RunObjects(STATE_BUCKET, RUN).write_shards(refs)
    bench.prepare()
    monkeypatch.setattr(feed, "expected_dollars", lambda *_: 0.3)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda ref: bench.feed(ref, token=ref.shard), refs))
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.state, len(run.reservations)) == ("HELD", 3)
    assert run.charged_dollars <= 1.0
    assert len(bench.answered()) == 12 - 3


def test_a_run_that_two_executions_feed_at_once_answers_each_item_once(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare()
    bench.prepare(execution="e2")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: bench.feed(ref, token=name, execution=name), ("e1", "e2")))
    jobs = set(sent_ids(bench))
    assert len(jobs) == 2
    for job in sorted(jobs):
        bench.answer(job)
    bench.collect(ref)
    assert (bench.shard().succeeded, len(bench.lines("results"))) == (2, 2)


def test_one_percent_of_bad_files_fails_these_items_alone(bench: RunFixture) -> None:
    items = bench.items(*(f"n{number}" for number in range(100)))
    bench.cloud.s3.delete_object(Bucket="assets", Key="clips/n7.mp4")
    ref = bench.started(items)
    assert (bench.shard().failed, bench.shard().ended) == (1, {7})
    for line in RunObjects(STATE_BUCKET, RUN).planned("e1", "00000") or ():
        if line.job is not None:
            bench.answer(line.job.job_id)
    bench.collect(ref)
    summary = bench.finish()["summary"]
    assert (summary["state"], summary["succeeded"], summary["failed"]) == ("SUCCEEDED", 99, 1)
