"""A function of a run that dies at any of its steps is called again, and nothing is lost or done twice."""

from collections.abc import Callable

import pytest

from cosmos_batch.state import ItemJobs, Jobs, ReservedKeys, Runs, Shards
from lambdas.runs import feed, item_messages, shard_ends, shard_plan
from lambdas.runs.objects import RunObjects
from lambdas.runs.shard_ends import park_shard
from tests.lambdas.runs.conftest import ANOTHER, RUN, RunFixture, deploy, dies_at, run_sweep, sent_ids


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Runs, "reserve"),
        (Shards, "feed"),
        (ReservedKeys, "reserve"),
        (RunObjects, "write_planned"),
        (Shards, "planned"),
        (ItemJobs, "watch"),
        (item_messages, "_send"),
        (ItemJobs, "sent"),
        (Shards, "count"),
        (Shards, "fed"),
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


@pytest.mark.parametrize("owner, name", [(RunObjects, "write_results"), (Runs, "settle"), (Shards, "_update")])
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
        (Shards, "forget_tokens"),
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
    assert ({*bench.answered()}, bench.shard().is_awaited) == ({"shard-token"}, False)
    answers = len(bench.answered())
    again(bench)
    assert len(bench.answered()) == answers, "nothing is left to do"
    bench.prepare(execution="e2")
    bench.feed(ref, token="again", execution="e2")
    run_sweep(bench)
    assert (bench.shard().state, bench.tokens()) == ("RUNNING", {"again"})


def test_a_park_that_dies_before_it_notes_anything_is_repeated(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.started(bench.items("a"))
    dies_at(monkeypatch, Shards, "park", lambda: park(bench))
    park(bench)
    assert (bench.answered(), bench.shard().state) == (["shard-token"], "SKIPPED")


@pytest.mark.parametrize("owner, name", [(RunObjects, "write_summary"), (Runs, "end"), (Shards, "of_run")])
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
    bench.runs.shards.park(RUN, "00000")
    bench.prepare(execution="e2")
    deploy(monkeypatch, ANOTHER)
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


@pytest.mark.parametrize("parked", [False, True], ids=["never fed", "parked before"])
def test_a_shard_whose_feeding_died_keeps_no_reservation_if_its_run_is_held_before_the_next_call(
    bench: RunFixture, monkeypatch: pytest.MonkeyPatch, parked: bool
) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    if parked:
        bench.feed(ref)
        park(bench)
        bench.prepare(execution="e2")
    dies_at(monkeypatch, Shards, "feed", lambda: bench.feed(ref, token="dies"))
    run = bench.runs.get(RUN)
    assert run is not None and list(run.reservations) == [ref.shard]
    bench.runs.hold(RUN, "The budget of $5 would be exceeded.")
    bench.feed(ref, token="passes")
    run = bench.runs.get(RUN)
    assert run is not None and (run.reservations, run.charged_dollars) == ({}, 0.0)
    assert "passes" in bench.answered()
