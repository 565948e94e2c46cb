"""Feeding a shard: what is sent, what is reused or refused, and when nothing is fed."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.parameters import Parameters
from cosmos_batch.contract.runs import RunItem
from cosmos_batch.contract.s3 import parse_uri
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.state import FedItems, JobRow, Revisions, RunFeeding, item_jobs
from lambdas.runs.item_messages import BATCH_BYTES, Message, batches
from tests.lambdas.cloud import IDENTITY, SMALL, STATE_BUCKET
from tests.lambdas.runs.conftest import RUN, RunFixture

PASSES = Error(code="EngineFailed", message="m", remedy="r", retryable=True)
STAYS = Error(code="InvalidInput", message="m", remedy="r")


def test_each_item_is_sent_once_without_a_token_in_the_group_of_its_run(bench: RunFixture) -> None:
    bench.started(bench.items("a", "b"))
    sent = bench.sent()
    assert {message["schemaVersion"] for message in sent} == {5}
    assert {message["run"] for message in sent} == {RUN}
    assert not any("taskToken" in message for message in sent)
    assert {message["job"]["jobId"][:5] for message in sent} == {"item-"}
    assert (bench.shard().state, bench.shard().jobs, bench.tokens()) == ("RUNNING", 2, {"shard-token"})
    pipeline = bench.cloud.table.get(f"pipeline#{SMALL}", "pipeline")
    assert pipeline is not None and pipeline["waitingJobs"] == 2
    assert len(bench.cloud.messages(bench.cloud.nudges)) == 1
    assert bench.answered() == []


def test_a_run_that_an_earlier_release_has_begun_is_fed(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a"), max_dollars=50.0)
    bench.prepare()
    bench.cloud.table.update("run#my-run", "run", "REMOVE #reservations, #chargedDollars")
    bench.feed(ref)
    run = bench.runs.get(RUN)
    assert len(bench.sent()) == 1 and run is not None and list(run.reservations) == [ref.shard]


def test_feeding_again_after_a_fault_plans_nothing_anew_and_loses_no_item(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    first = {message["job"]["jobId"] for message in bench.sent()}
    bench.cloud.put("clips/a.mp4", b"another version")
    bench.cloud.table.update("run#my-run", "shard#00000", "SET #state = :feeding", {"feeding": "FEEDING"})
    bench.feed(ref, token="second")
    assert {message["job"]["jobId"] for message in bench.sent()} == first
    assert bench.tokens() == {"shard-token", "second"}


def test_what_is_fed_is_counted_once_for_scale_and_answered_items_need_no_job(bench: RunFixture) -> None:
    items = bench.items("a", "b")
    bench.started(items[:1])
    bench.answer(bench.sent()[0]["job"]["jobId"])
    ref = bench.started_by_another(items)
    feeding = RunFeeding(bench.cloud.table)
    assert feeding.get("other", SMALL) == FedItems(items=2, needed=1)
    bench.cloud.table.update("run#other", "shard#00000", "SET #state = :feeding", {"feeding": "FEEDING"})
    bench.feed(ref, token="second", execution="other")
    assert feeding.get("other", SMALL) == FedItems(items=2, needed=1)


def test_refused_items_are_counted_at_once(bench: RunFixture) -> None:
    items = bench.items("a")
    items.append(RunItem(id="gone", input="s3://assets/clips/gone.mp4"))
    items.append(RunItem(id="outside", input="s3://elsewhere/x.mp4"))
    items.append(RunItem(id="changed", input="s3://plain/inbox/x.mp4", etag='"before"'))
    bench.cloud.put("inbox/x.mp4", bucket="plain")
    bench.started(items)
    assert len(bench.sent()) == 1
    assert (bench.shard().failed, bench.shard().ended) == (3, {1, 2, 3})


def test_a_change_of_any_of_several_files_is_noticed(bench: RunFixture) -> None:
    [first, second] = bench.items("a", "b")
    etag = bench.cloud.s3.head_object(Bucket="assets", Key="clips/b.mp4")["ETag"]
    both = first.model_copy(update={"parameters": Parameters(more_inputs=[second.input or ""])})
    items = [both.model_copy(update={"id": etag, "more_etags": [etag]}) for etag in (etag, '"before"')]
    items.append(both.model_copy(update={"id": "not looked at"}))
    ref = bench.started(items)
    [message] = bench.sent()
    bench.answer(message["job"]["jobId"])
    bench.collect(ref)
    [line] = bench.lines("errors")
    assert line.id == '"before"' and line.error is not None
    assert "clips/b.mp4 has changed" in line.error.message
    assert len(bench.lines("results")) == 2


def test_an_item_that_is_first_fed_after_the_deadline_can_be_retried_without_it(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"), deadline=datetime(2026, 1, 1, tzinfo=UTC))
    bench.collect(ref)
    [line] = bench.lines("errors")
    assert line.error is not None
    assert (line.error.code, line.error.retryable) == ("TimedOut", True)
    assert "runs retry my-run --failed" in line.error.remedy


def test_an_item_of_a_long_run_ends_before_its_queue_deletes_it(bench: RunFixture) -> None:
    bench.started(bench.items("a"), deadline=datetime.now(UTC) + timedelta(days=30))
    [message] = bench.sent()
    assert datetime.fromisoformat(message["job"]["deadline"]) < datetime.now(UTC) + timedelta(days=QUEUE_DAYS)


def test_a_file_that_may_not_be_read_any_more_fails_alone(bench: RunFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    items, head = bench.items("a", "closed"), bench.cloud.s3.head_object
    answer = {"Error": {"Code": "403"}, "ResponseMetadata": {"HTTPStatusCode": 403, "HTTPHeaders": {}}}

    def closed(**call: str) -> Any:
        if "closed" in call["Key"]:
            raise bench.cloud.s3.exceptions.ClientError(answer, "HeadObject")
        return head(**call)

    monkeypatch.setattr(bench.cloud.s3, "head_object", closed)
    ref = bench.started(items)
    [message] = bench.sent()
    bench.answer(message["job"]["jobId"])
    bench.collect(ref)
    [line] = bench.lines("errors")
    assert line.id == "closed" and line.error is not None
    assert (line.error.code, "no permission to read" in line.error.message) == ("InvalidInput", True)


def test_a_shard_of_refused_items_alone_is_answered_at_once(bench: RunFixture) -> None:
    bench.started([RunItem(id="gone", input="s3://assets/clips/gone.mp4")])
    assert bench.answered() == ["shard-token"]


def test_the_same_item_of_another_run_is_not_sent_again(bench: RunFixture) -> None:
    items = bench.items("a", "b")
    bench.started(items)
    [one, two] = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    other = bench.write(items, run="other")
    bench.prepare({"id": "other"}, execution="e2")
    bench.feed(other, token="other-token", execution="e2")
    assert len(bench.sent()) == 2, "no third message"
    shard = bench.shard("other")
    assert (shard.succeeded, shard.reused, shard.dollars) == (1, 1, 0)
    bench.answer(two)
    assert bench.shard("other").complete
    assert bench.shard(RUN).dollars == 1.0, "the run that asked first pays"


@pytest.mark.parametrize(("error", "retry", "sent"), [(PASSES, False, 1), (STAYS, False, 0), (STAYS, True, 1)], ids=str)
def test_a_failed_item_is_sent_again_where_that_can_change_something(
    bench: RunFixture, error: Error, retry: bool, sent: int
) -> None:
    items = bench.items("a")
    bench.started(items)
    bench.answer(bench.sent()[0]["job"]["jobId"], error)
    bench.cloud.sqs.purge_queue(QueueUrl=bench.cloud.jobs_queue)
    other = bench.write(items, run="other", retry_failed=retry)
    bench.prepare({"id": "other"}, execution="e2")
    bench.feed(other, execution="e2")
    assert len(bench.sent()) == sent


def test_another_prompt_version_or_place_is_another_item(bench: RunFixture) -> None:
    items = bench.items("a")
    bench.started(items)
    others: list[dict[str, Any]] = [{"prompt": "Why?"}, {"output": "s3://assets/out/"}, {"table_only": True}, {}]
    for number, changes in enumerate(others):
        if not changes:
            bench.cloud.put("clips/a.mp4", b"another version")
        other = bench.write(items, run=f"other-{number}", **changes)
        bench.prepare({"id": other.run}, execution=other.run)
        bench.feed(other, execution=other.run)
        assert len(bench.sent()) == number + 2, changes


def test_an_item_with_a_long_prompt_is_the_same_whoever_asks_and_another_with_another_prompt(bench: RunFixture) -> None:
    """Such a prompt lies in the state bucket, and only its end may differ."""
    items, long = bench.items("a"), "w" * PROMPT_INLINE_LIMIT
    bench.started(items, prompt=f"{long} one", deadline=datetime(2126, 1, 1, tzinfo=UTC))
    bench.started_by_another(items, prompt=f"{long} one", caller="somebody else")
    assert len(bench.sent()) == 1
    bench.started_by_another(items, run="third", prompt=f"{long} two")
    texts = [parse_uri(message["job"]["promptUri"]) for message in bench.sent()]
    bodies = [bench.cloud.s3.get_object(Bucket=text.bucket, Key=text.key)["Body"].read() for text in texts]
    assert [body.decode()[-3:] for body in bodies] == ["one", "two"]


def test_a_run_that_invalidates_the_model_takes_no_answer_of_the_stored_one(bench: RunFixture) -> None:
    """Its jobs are planned for no commit, because the worker looks for the newest one when it receives them."""
    items = bench.items("a")
    bench.started(items)
    [first] = bench.sent()
    bench.answer(first["job"]["jobId"])
    revisions = Revisions(bench.cloud.table, SMALL)
    revisions.record(IDENTITY.model, "main", "c1")
    ref = bench.started_by_another(items, invalidate_model=True)
    revisions.record(IDENTITY.model, "main", "c2")
    bench.feed(ref, token="after the update", execution="other")
    [second] = [message for message in bench.sent() if message["run"] == "other"]
    assert second["job"]["invalidateModel"] and "revision" not in second["job"]["plannedFor"]
    bench.answer(second["job"]["jobId"], text="By the new one.")
    bench.collect(ref)
    assert [line.answer for line in bench.lines("results", run="other")] == ["By the new one."]


def test_documents_mirror_the_folders_of_the_inputs_below_the_output(bench: RunFixture) -> None:
    bench.cloud.put("clips/deep/a.mp4")
    item = RunItem(id="a", input="s3://assets/clips/deep/a.mp4")
    bench.started([item], output="s3://assets/out/", input_root="s3://assets/clips/")
    assert bench.sent()[0]["job"]["document"]["key"] == "out/deep/a_CosmosReason_20261101-100000.json"


def test_a_cancelled_run_feeds_nothing(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    bench.runs.cancel(RUN, "by a person")
    bench.feed(ref)
    assert bench.sent() == []
    assert bench.answered() == ["shard-token"]
    assert bench.runs.shards.get(RUN, "00000") is None


def test_a_cancelled_run_that_is_resumed_asks_what_was_cancelled_again_and_ends_well(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a", "b"))
    [one, two] = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(one)
    bench.runs.cancel(RUN, "by a person")
    bench.collect(ref)
    bench.finish()
    assert (bench.shard().succeeded, bench.shard().cancelled) == (1, 1)

    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    assert [message["job"]["jobId"] for message in bench.sent()] == [one, two, two], "what was answered is not asked"
    assert (bench.shard().state, bench.shard().succeeded, bench.shard().cancelled) == ("RUNNING", 1, 0)
    bench.answer(two)
    bench.collect(ref)
    bench.finish("e2")
    run = bench.runs.get(RUN)
    assert run is not None and (run.state, run.reason) == ("SUCCEEDED", None)
    assert (bench.shard().succeeded, bench.shard().reused, bench.shard().dollars) == (2, 0, 1.0)
    assert {line.id for line in bench.lines("results")} == {"a", "b"} and bench.lines("errors") == []


def test_a_resumed_run_leaves_shards_without_cancelled_items_as_they_are(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    [only] = [message["job"]["jobId"] for message in bench.sent()]
    bench.answer(only, STAYS)
    bench.collect(ref)
    bench.finish()
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    assert (bench.shard().state, bench.shard().failed) == ("ENDED", 1)
    assert "again" in bench.answered()


def test_a_budget_that_the_next_shard_would_exceed_holds_the_run(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a"), max_dollars=1e-9)
    bench.prepare()
    bench.feed(ref)
    run = bench.runs.get(RUN)
    assert run is not None
    assert (run.state, bench.runs.shards.get(RUN, "00000"), bench.sent()) == ("HELD", None, [])
    assert "budget of $1e-09" in (run.reason or "")
    bench.prepare({"id": RUN, "maxDollars": 1.0}, execution="e2")
    bench.feed(ref, execution="e2")
    assert (bench.shard().state, len(bench.sent())) == ("RUNNING", 1)


def test_an_open_breaker_holds_the_run_and_says_why(bench: RunFixture) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    reason = Error(code="ModelUnavailable", message="The licence was not accepted.", remedy="Accept it.")
    bench.cloud.table.update(
        f"pipeline#{SMALL}",
        "pipeline",
        "SET #open = :yes, #reason = :reason",
        {"yes": True, "reason": reason.model_dump_json()},
    )
    bench.feed(ref)
    run = bench.runs.get(RUN)
    assert run is not None and run.state == "HELD"
    assert "The licence was not accepted." in (run.reason or "")
    assert bench.sent() == []


def test_batches_are_within_the_limits_of_sqs() -> None:
    row = JobRow(job_id="j", pipeline=SMALL, state="PLANNED", document="s3://b/d.json", execution_arn="arn:e1")
    found = list(batches([Message("x" * 30_000, row)] * 25))
    assert sum(map(len, found)) == 25
    assert max(map(len, found)) <= 10
    assert all(sum(len(message.body) for message in batch) <= BATCH_BYTES for batch in found)
    assert list(batches([])) == []


def test_what_was_made_of_the_items_is_kept_in_the_state_bucket(bench: RunFixture) -> None:
    bench.started(bench.items("a"))
    key = f"runs/{RUN}/planned/e1/00000.jsonl"
    [line] = bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key=key)["Body"].read().decode().splitlines()
    assert json.loads(line)["job"]["jobId"] == bench.sent()[0]["job"]["jobId"]


def test_a_shard_that_was_begun_is_waited_for_though_its_run_is_held(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    bench.runs.hold(RUN, "the budget")
    bench.feed(ref, token="of-another-execution", execution="e2")
    assert bench.answered() == []
    assert bench.tokens() == {"shard-token", "of-another-execution"}
    assert len(bench.sent()) == 1


def test_many_questions_about_one_file_have_a_key_each_without_a_long_search(bench: RunFixture) -> None:
    [item] = bench.items("a")
    calls = 0

    def count(**_: Any) -> None:
        nonlocal calls
        calls += 1

    bench.cloud.dynamodb.meta.events.register("before-call.dynamodb.PutItem", count)
    try:
        bench.started([item.model_copy(update={"id": f"q{number}", "prompt": f"{number}?"}) for number in range(40)])
    finally:
        bench.cloud.dynamodb.meta.events.unregister("before-call.dynamodb.PutItem", count)
    lines = bench.cloud.s3.get_object(Bucket=STATE_BUCKET, Key=f"runs/{RUN}/planned/e1/00000.jsonl")["Body"].read()
    keys = {json.loads(line)["job"]["document"]["key"] for line in lines.splitlines()}
    assert len(keys) == 40
    assert calls < 3 * 40


def test_more_items_than_one_answer_serves_wait_and_ask_again(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 2)
    [item] = bench.items("a")
    ref = bench.started([item.model_copy(update={"id": name}) for name in ("one", "two", "three")])
    [answer] = bench.cloud.stepfunctions.answers
    assert (answer["taskToken"], answer["error"]) == ("shard-token", "Throttled")
    assert not bench.shard().is_awaited, "a call each few minutes for days adds none to the row"
    [first] = bench.sent()
    bench.answer(first["job"]["jobId"])
    bench.feed(ref, token="again")
    _, second = bench.sent()
    assert second == first, "its document is replaced"
    [complete] = bench.answer(second["job"]["jobId"])
    assert "again" in bench.runs.shards.tokens(complete)
    bench.collect(ref)
    assert sorted(line.dollars or 0 for line in bench.lines("results")) == [0, 0.5, 0.5], "two inferences for three"


def test_a_job_that_may_serve_no_more_items_is_sent_if_a_held_run_has_left_it_unsent(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 1)
    items = bench.items("a")
    bench.started(items)
    [first] = bench.sent()
    bench.runs.hold(RUN, "No worker can start.")
    bench.jobs.unsent(first["job"]["jobId"])
    bench.started_by_another(items)
    _, second = bench.sent()
    assert second["job"]["jobId"] == first["job"]["jobId"]
    assert [answer["taskToken"] for answer in bench.cloud.stepfunctions.answers] == ["token-of-other"], "called again"


def test_an_answer_that_later_ones_have_pushed_out_of_its_row_is_replaced_by_the_last(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 1)
    monkeypatch.setattr(item_jobs, "EARLIER_ENDS", 1)
    first, slow = bench.items("first", "slow")
    ref = bench.started([first, slow])
    asked_again, waits = (message["job"]["jobId"] for message in bench.sent())
    bench.answer(asked_again)
    for run in ("second", "third"):
        bench.started_by_another([first], run)
        bench.answer(asked_again, text=f"The answer to the {run}.")
    bench.answer(waits)
    bench.collect(ref)
    assert bench.lines("errors") == []
    lines = {line.id: line for line in bench.lines("results")}
    assert lines["first"].answer == "The answer to the third."
