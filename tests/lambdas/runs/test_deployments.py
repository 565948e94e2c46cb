"""A deployment or a model update while a run goes on: items that wait are planned again, others keep their plan."""

import pytest

from lambdas.handlers import feed as feed_function
from tests.lambdas.cloud import IDENTITY
from tests.lambdas.runs.conftest import ANOTHER, RUN, RunFixture, deploy, run_sweep, sent_ids


def test_items_that_wait_are_planned_again_for_what_is_deployed_now(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = bench.started(bench.items("a", "b"))
    [one, two] = sent_ids(bench)
    bench.answer(one)
    deploy(monkeypatch, ANOTHER)
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
    deploy(monkeypatch, ANOTHER)
    bench.feed(ref, token="after the deployment")
    assert sent_ids(bench) == [job]
    bench.answer(job)
    bench.collect(ref)
    assert [line.job_id for line in bench.lines("results")] == [job]


def test_a_model_update_plans_waiting_items_again_under_the_same_name(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(monkeypatch, IDENTITY.model_copy(update={"revision": "c1"}))
    ref = bench.started(bench.items("a"))
    [job] = sent_ids(bench)
    deploy(monkeypatch, IDENTITY.model_copy(update={"revision": "c2"}))
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


def test_a_shard_that_an_earlier_release_has_fed_is_answered_with_the_token_in_its_row(bench: RunFixture) -> None:
    ref = bench.started(bench.items("a"))
    earlier = "SET #taskTokens = :tokens REMOVE #tokenIds"
    bench.cloud.table.update(f"run#{RUN}", f"shard#{ref.shard}", earlier, {"tokens": {"of-the-earlier-release"}})
    [complete] = bench.answer(sent_ids(bench)[0])
    assert bench.runs.shards.tokens(complete) == {"of-the-earlier-release"}
    run_sweep(bench)
    assert bench.answered() == ["of-the-earlier-release"]
    bench.collect(ref)
    assert bench.shard().state == "ENDED" and not bench.shard().is_awaited
