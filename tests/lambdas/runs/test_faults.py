"""Faults in the middle of a run: functions that die, runs that share jobs, deployments, and what several do at once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.identity import Identity
from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.state import ItemJobs, Jobs, ReservedKeys, RunFeeding, Runs
from infra.constructs.function_errors import PASSING
from lambdas.clients import Throttled
from lambdas.handlers import feed as feed_function
from lambdas.reporting.refusal import refuse_queue
from lambdas.runs import feed, item_messages, reconcile, shard_ends, shard_plan
from lambdas.runs.objects import RunObjects
from lambdas.runs.reconcile import reconcile_runs
from lambdas.runs.shard_ends import park_shard
from tests.lambdas.cloud import IDENTITY, SMALL, STATE_BUCKET
from tests.lambdas.runs.conftest import RUN, RunFixture

PASSES = Error(code="EngineFailed", message="It crashed.", remedy="r", retryable=True)
ANOTHER = Identity(model=IDENTITY.model, engine="auto", configuration="another configuration")


class Died(Exception):  # noqa: N818 - a process that ends, and no error of it
    """Stands for the end of a function's process."""


def die(*_: object, **__: object) -> None:
    raise Died


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "STALLED", timedelta(0))


def run_sweep(bench: RunFixture) -> None:
    reconcile_runs(bench.cloud.table, STATE_BUCKET, {SMALL: bench.cloud.jobs_queue})


def sent_ids(bench: RunFixture) -> list[str]:
    return [message["job"]["jobId"] for message in bench.sent()]


def dies_at(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, call: Callable[[], object]) -> None:
    """Let a function of the code die where it calls `name`."""
    with monkeypatch.context() as fault:
        fault.setattr(owner, name, die)
        with pytest.raises(Died):
            call()


def deploy(bench: RunFixture, monkeypatch: pytest.MonkeyPatch, identity: Identity) -> None:
    """Deploy the pipeline with another configuration, as `feed` sees it."""
    pipelines = {
        name: one.model_copy(update={"queue": one.queue.model_copy(update={"identity": identity})})
        for name, one in feed_function.pipelines().items()
    }
    monkeypatch.setattr(feed_function, "pipelines", lambda: pipelines)


# Items that several runs share


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


def test_a_message_that_was_lost_after_an_item_had_joined_is_sent_by_the_sweep(
    bench: RunFixture, stalled: None
) -> None:
    items = bench.items("a")
    bench.started(items)
    bench.started_by_another(items)
    [job] = sent_ids(bench)
    bench.jobs.unsent(job)
    run_sweep(bench)
    assert sent_ids(bench) == [job, job]
    run_sweep(bench)
    assert sent_ids(bench) == [job, job], "it was noted that it is sent"


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


# Functions that die


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Runs, "reserve"),
        (Runs, "feed"),
        (ReservedKeys, "reserve"),
        (RunObjects, "write_planned"),
        (Runs, "planned"),
        (ItemJobs, "watch"),
        (item_messages, "_send"),
        (ItemJobs, "sent"),
        (Runs, "count"),
        (Runs, "fed"),
        (Jobs, "count_waiting"),
        (feed, "nudge_for_work"),
    ],
)
def test_a_feed_that_dies_at_any_step_is_repeated_and_loses_and_doubles_no_item(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare()
    dies_at(monkeypatch, owner, name, lambda: bench.feed(ref))
    bench.feed(ref, token="again")
    ids = set(sent_ids(bench))
    assert (len(ids), bench.shard().state) == (2, "RUNNING")
    for job in sorted(ids):
        bench.answer(job)
    bench.collect(ref)
    assert (bench.shard().state, bench.shard().succeeded) == ("ENDED", 2)
    assert {line.id for line in bench.lines("results")} == {"a", "b"}
    run = bench.runs.get(RUN)
    assert run is not None and (run.reservations, run.charged_dollars) == ({}, 1.0)


@pytest.mark.parametrize("owner, name", [(RunObjects, "write_results"), (Runs, "settle"), (Runs, "_update_shard")])
def test_a_collect_that_dies_at_any_step_is_repeated_and_changes_nothing_twice(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    dies_at(monkeypatch, owner, name, lambda: bench.collect(ref))
    bench.collect(ref)
    bench.collect(ref)
    run = bench.runs.get(RUN)
    assert run is not None and run.charged_dollars == 0.5
    assert (bench.shard().state, bench.shard().succeeded, len(bench.lines("results"))) == ("ENDED", 1, 1)


def park(bench: RunFixture) -> None:
    bench.runs.hold(RUN, "no worker")
    park_shard(RUN, "00000", bench.runs, bench.jobs)


@pytest.mark.parametrize("again", [park, run_sweep])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Jobs, "count_waiting"),
        (Runs, "settle_parked"),
        (Runs, "settle"),
        (shard_ends, "answer_shards"),
        (Runs, "forget_tokens"),
    ],
)
def test_a_park_that_dies_at_any_step_is_finished_by_its_repetition_or_by_the_sweep(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, owner: object, name: str, again: Callable[[RunFixture], None]
) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.answer(sent_ids(bench)[0])
    dies_at(monkeypatch, owner, name, lambda: park(bench))
    again(bench)
    run = bench.runs.get(RUN)
    assert run is not None and (run.reservations, run.charged_dollars) == ({}, 0.5)
    assert ({*bench.answered()}, bench.shard().task_tokens) == ({"shard-token"}, set())
    answers = len(bench.answered())
    again(bench)
    assert len(bench.answered()) == answers, "nothing is left to do"
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    run_sweep(bench)
    assert (bench.shard().state, bench.shard().task_tokens) == ("RUNNING", {"again"})


def test_a_park_that_dies_before_it_notes_anything_is_repeated(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.started(bench.items("a"))
    dies_at(monkeypatch, Runs, "park", lambda: park(bench))
    park(bench)
    assert (bench.answered(), bench.shard().state) == (["shard-token"], "SKIPPED")


@pytest.mark.parametrize("owner, name", [(RunObjects, "write_summary"), (Runs, "end"), (Runs, "shards")])
def test_a_finish_that_dies_at_any_step_is_repeated(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    bench.collect(ref)
    dies_at(monkeypatch, owner, name, bench.finish)
    assert bench.finish()["summary"]["state"] == "SUCCEEDED"
    assert list(bench.runs.active()) == []


def test_items_that_had_ended_keep_their_plan_when_a_resumed_feed_dies_before_its_own(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a", "b"))
    [one, two] = sent_ids(bench)
    bench.answer(one)
    bench.runs.park(RUN, "00000")
    bench.prepare(execution="e2")
    deploy(bench, monkeypatch, ANOTHER)
    dies_at(monkeypatch, RunObjects, "write_planned", lambda: bench.feed(ref, execution="e2"))
    bench.feed(ref, token="again", execution="e2")
    [new] = {*sent_ids(bench)} - {one, two}
    bench.answer(new)
    bench.collect(ref)
    assert {line.job_id for line in bench.lines("results")} == {one, new}


def test_a_shard_that_could_not_be_fed_fails_its_items_and_not_its_run(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    dies_at(monkeypatch, shard_plan, "ItemPlanner", lambda: bench.feed(ref))
    bench.collect(ref, Error="Died", Cause="{}")
    assert (bench.shard().state, bench.shard().failed, len(bench.lines("errors"))) == ("ENDED", 1, 1)
    assert bench.finish()["summary"]["state"] == "SUCCEEDED"


# Stops in the middle


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
    bench.runs.park(RUN, "00000")
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
    bench.runs.park(RUN, ref.shard)
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


# Services that refuse


def refuse_the_last(bench: RunFixture, patch: pytest.MonkeyPatch, refusals: int) -> list[float]:
    """Let SQS refuse the last message of so many batches; return the pauses that are made."""
    pauses, left, send = list[float](), iter(range(refusals)), bench.cloud.sqs.send_message_batch

    def refuse(QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        taken = Entries if next(left, None) is None else Entries[:-1]
        if taken:
            send(QueueUrl=QueueUrl, Entries=taken)
        return {"Failed": [{"Id": entry["Id"], "Code": "ServiceUnavailable"} for entry in Entries[len(taken) :]]}

    patch.setattr(bench.cloud.sqs, "send_message_batch", refuse)
    patch.setattr(item_messages, "time", SimpleNamespace(sleep=pauses.append))
    return pauses


def test_a_message_that_sqs_refuses_is_sent_again_with_growing_pauses_and_the_others_are_not(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = refuse_the_last(bench, monkeypatch, refusals=2)
    bench.started(bench.items("a", "b", "c"))
    assert (len(sent_ids(bench)), len(set(sent_ids(bench)))) == (3, 3)
    assert pauses == list(item_messages.PAUSES[:2])


def test_a_message_that_sqs_refuses_for_long_is_sent_when_the_state_is_tried_again(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.write(bench.items("a", "b"))
    bench.prepare()
    with monkeypatch.context() as fault:
        refuse_the_last(bench, fault, refusals=1000)
        with pytest.raises(RuntimeError, match="SQS did not take 1 messages: ServiceUnavailable"):
            bench.feed(ref)
    assert len(set(sent_ids(bench))) == 1
    bench.feed(ref, token="again")
    assert (len(set(sent_ids(bench))), bench.shard().state) == (2, "RUNNING")


def test_an_event_that_eventbridge_refuses_is_published_when_the_state_is_tried_again(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    bench.collect(ref)
    refusal = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}
    with monkeypatch.context() as fault:
        fault.setattr(bench.cloud.events, "put_events", lambda **_: refusal)
        with pytest.raises(RuntimeError, match="ThrottlingException"):
            bench.finish()
    assert bench.finish()["summary"]["state"] == "SUCCEEDED"
    assert len(bench.cloud.events.entries) == 1


@pytest.mark.parametrize("step", ["prepare", "feed", "collect", "finish"])
def test_a_call_that_s3_throttles_is_tried_again_for_days(bench: RunFixture, step: str) -> None:
    ref = bench.started(bench.items("a"))
    bench.answer(sent_ids(bench)[0])
    second = bench.write(bench.items("b"), run="other")
    bench.prepare({"id": "other"}, execution="other")
    calls: dict[str, tuple[str, Callable[[], object]]] = {
        "prepare": ("GetObject", lambda: bench.prepare(execution="e2")),
        "feed": ("GetObject", lambda: bench.feed(second)),
        "collect": ("PutObject", lambda: bench.collect(ref)),
        "finish": ("PutObject", bench.finish),
    }
    operation, call = calls[step]

    def slow_down(**_: object) -> None:
        answer: Any = {"Error": {"Code": "SlowDown"}, "ResponseMetadata": {"HTTPStatusCode": 503}}
        raise ClientError(answer, operation)

    events, hook = bench.cloud.s3.meta.events, f"before-call.s3.{operation}"
    events.register(hook, slow_down)
    try:
        with pytest.raises(Throttled) as raised:
            call()
    finally:
        events.unregister(hook, slow_down)
    assert type(raised.value).__name__ in PASSING


def test_a_throttled_reading_of_the_pipelines_is_tried_again_for_days(bench: RunFixture) -> None:
    bench.write(bench.items("a"))

    def throttle(**_: object) -> None:
        raise ClientError({"Error": {"Code": "ThrottlingException"}}, "GetParameters")

    events = bench.cloud.ssm.meta.events
    events.register("before-call.ssm.GetParameters", throttle)
    try:
        with pytest.raises(Throttled):
            bench.prepare()
    finally:
        events.unregister("before-call.ssm.GetParameters", throttle)
    assert bench.prepare()["run"] == RUN


# Deployments in the middle


def test_items_that_wait_are_planned_again_for_what_is_deployed_now(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a", "b"))
    [one, two] = sent_ids(bench)
    bench.answer(one)
    deploy(bench, monkeypatch, ANOTHER)
    bench.feed(ref, token="after the deployment")
    [new] = {*sent_ids(bench)} - {one, two}
    assert bench.job_row(two).state == "CANCELLED", "workers drop its message"
    bench.answer(new)
    bench.collect(ref)
    assert {line.job_id for line in bench.lines("results")} == {one, new}
    assert (bench.shard().succeeded, bench.shard().failed) == (2, 0)


def test_an_item_in_a_workers_hand_keeps_its_plan_through_a_deployment(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a"))
    [job] = sent_ids(bench)
    bench.cloud.table.update(f"job#{job}", "job", "SET #state = :running", {"running": "RUNNING"})
    deploy(bench, monkeypatch, ANOTHER)
    bench.feed(ref, token="after the deployment")
    assert sent_ids(bench) == [job]
    bench.answer(job)
    bench.collect(ref)
    assert [line.job_id for line in bench.lines("results")] == [job]


def test_a_model_update_plans_waiting_items_again_under_the_same_name(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(bench, monkeypatch, IDENTITY.model_copy(update={"revision": "c1"}))
    ref = bench.started(bench.items("a"))
    [job] = sent_ids(bench)
    deploy(bench, monkeypatch, IDENTITY.model_copy(update={"revision": "c2"}))
    bench.jobs.unsent(job)
    bench.feed(ref, token="after the update")
    assert [message["job"]["plannedFor"]["revision"] for message in bench.sent()] == ["c1", "c2"]
    assert set(sent_ids(bench)) == {job}


def test_a_pipeline_that_is_not_enabled_any_more_holds_the_run(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a"))
    monkeypatch.setattr(feed_function, "pipelines", dict)
    bench.feed(ref, token="second")
    run = bench.runs.get(RUN)
    assert run is not None and run.state == "HELD" and "is not enabled" in (run.reason or "")
    assert (bench.shard().state, sorted(bench.answered())) == ("SKIPPED", ["second", "shard-token"])


# Several at once


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
