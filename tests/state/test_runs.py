"""Runs and shards: each end of an item counts once, whoever reports it, and how often."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from cosmos_batch.contract.runs import ShardRef
from cosmos_batch.contract.settings import QUEUE_DAYS
from cosmos_batch.state import ConditionFailed, ItemEnd, RunRow, Runs, ShardFacts, ShardRow, Table, Watcher

REF = ShardRef(run="r1", shard="00000", pipeline="cosmos-reason2-2b", items=4)
GOOD, BAD = ItemEnd("succeeded", gpu_seconds=1.5, dollars=0.25), ItemEnd("failed")


def run_row(run: str = "r1", started_at: str = "2026-11-01T00:00:00.000+00:00") -> RunRow:
    return RunRow(
        id=run, state="RUNNING", pipelines=[REF.pipeline], items=4, shards=1, started_at=started_at, execution_arn="e1"
    )


@pytest.fixture
def runs(table: Table) -> Iterator[Runs]:
    runs = Runs(table)
    runs.create(run_row())
    yield runs


@pytest.fixture
def fed(runs: Runs) -> Runs:
    runs.shards.feed(REF, "token", expected_dollars=2.0)
    runs.shards.fed("r1", "00000", jobs=4, weight=4.0)
    return runs


def shard(runs: Runs) -> ShardRow:
    row = runs.shards.get("r1", "00000")
    assert row is not None
    return row


def test_a_run_is_created_once_and_listed_from_the_latest(runs: Runs) -> None:
    assert not runs.create(run_row(started_at="2026-12-01T00:00:00.000+00:00"))
    assert runs.create(run_row("r2", "2026-11-02T00:00:00.000+00:00"))
    assert [row.id for row in runs.list()] == ["r2", "r1"]
    assert {row.id for row in runs.active()} == {"r1", "r2"}
    assert runs.get("r3") is None


def test_ends_that_are_counted_at_once_and_twice_count_once(fed: Runs) -> None:
    ends = [(index, GOOD if index else BAD) for index in range(4)] * 3
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda end: fed.shards.count("r1", "00000", {end[0]: end[1]}), ends))
    row = shard(fed)
    assert (row.succeeded, row.failed, row.cancelled, row.complete) == (3, 1, 0, True)
    assert row.ended == {0, 1, 2, 3}
    assert (row.gpu_seconds, row.dollars) == (4.5, 0.75)


def test_many_ends_in_one_call_leave_out_those_that_were_counted(runs: Runs) -> None:
    runs.shards.feed(ShardRef(run="r1", shard="00001", pipeline=REF.pipeline, items=120), "token", 0.0)
    runs.shards.count("r1", "00001", {70: BAD})
    row = runs.shards.count("r1", "00001", dict.fromkeys(range(120), ItemEnd("succeeded", reused=True)))
    assert row is not None
    assert (row.succeeded, row.failed, row.reused) == (119, 1, 119)


def test_nothing_is_counted_in_a_shard_that_has_ended_or_that_never_was(fed: Runs) -> None:
    fed.shards.count("r1", "00000", {0: GOOD})
    assert fed.end_shard("r1", "00000", ShardFacts(succeeded=1))
    assert not fed.end_shard("r1", "00000", ShardFacts(succeeded=1))
    ended = fed.shards.count("r1", "00000", {1: GOOD})
    assert ended is not None
    assert (ended.state, ended.succeeded, ended.ended, ended.is_awaited) == ("ENDED", 1, set(), False)
    assert fed.shards.count("r1", "99999", {0: GOOD}) is None


def test_a_second_state_that_waits_for_a_shard_gets_its_token_kept(fed: Runs) -> None:
    row = fed.shards.feed(REF, "another", expected_dollars=9.0)
    assert (row.state, fed.shards.tokens(row), row.expected_dollars) == ("RUNNING", {"token", "another"}, 2.0)


def test_the_token_of_one_state_is_forgotten_and_those_of_others_stay(fed: Runs) -> None:
    fed.shards.feed(REF, "another", expected_dollars=9.0)
    fed.shards.forget_token(REF, "token")
    row = fed.shards.get(REF.run, REF.shard)
    assert row is not None and fed.shards.tokens(row) == {"another"}


def test_a_parked_shard_is_fed_when_the_run_goes_on(fed: Runs) -> None:
    fed.shards.count("r1", "00000", {0: GOOD})
    parked = fed.shards.park("r1", "00000")
    assert parked is not None
    assert (parked.state, fed.shards.tokens(parked), parked.jobs) == ("SKIPPED", {"token"}, 4)
    fed.shards.forget_tokens(parked)
    assert fed.shards.park("r1", "00000") is None, "only once"
    row = fed.shards.feed(REF, "next", 0.0)
    assert (row.state, fed.shards.tokens(row), row.succeeded, row.ended) == ("FEEDING", {"next"}, 1, {0})
    assert fed.shards.fed("r1", "00000", 3, 3.0).state == "RUNNING"


def test_a_shard_that_is_parked_and_fed_again_is_never_half_parked_with_its_new_token(
    fed: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed.shards.park("r1", "00000")
    assert shard(fed).is_half_parked
    update, seen = Table.update, list[ShardRow]()

    def observe(self: Table, *arguments: Any) -> Any:
        item = update(self, *arguments)
        seen.append(shard(fed))
        return item

    monkeypatch.setattr(Table, "update", observe)
    fed.shards.feed(REF, "next", 0.0)
    assert seen and not any(row.is_half_parked and "next" in fed.shards.tokens(row) for row in seen)


def test_whoever_reads_the_id_of_a_token_finds_the_token(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[tuple[int, set[str]]]()

    def observed(write: Callable[..., Any]) -> Callable[..., Any]:
        def write_and_read(*arguments: Any) -> Any:
            written = write(*arguments)
            if (row := runs.shards.get("r1", "00000")) is not None:
                seen.append((len(row.token_ids), runs.shards.tokens(row)))
            return written

        return write_and_read

    monkeypatch.setattr(Table, "put_new", observed(Table.put_new))
    monkeypatch.setattr(Table, "update", observed(Table.update))
    for token in ("first", "second", "second"):
        runs.shards.feed(REF, token, 0.0)
    assert all(count == len(tokens) for count, tokens in seen)
    assert seen[-1] == (2, {"first", "second"})


def test_a_feeding_that_dies_before_it_notes_its_token_leaves_nothing_to_answer(
    fed: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying, pytest.raises(InterruptedError):
        dying.setattr(Table, "update", Mock(side_effect=InterruptedError))
        fed.shards.feed(REF, "lost", 0.0)
    fed.shards.feed(REF, "next", 0.0)
    parked = fed.shards.park("r1", "00000")
    assert parked is not None and fed.shards.tokens(parked) == {"token", "next"}


def test_the_tokens_in_a_row_of_an_earlier_release_are_answered_beside_new_ones(table: Table, fed: Runs) -> None:
    table.update("run#r1", "shard#00000", "SET #taskTokens = :old REMOVE #tokenIds", {"old": {"old"}})
    assert fed.shards.tokens(shard(fed)) == {"old"}
    fed.shards.feed(REF, "new", 0.0)
    parked = fed.shards.park("r1", "00000")
    assert parked is not None and parked.is_half_parked and fed.shards.tokens(parked) == {"old", "new"}
    fed.shards.forget_tokens(parked)
    assert not shard(fed).is_awaited


def test_a_task_token_is_kept_for_as_long_as_its_state_may_wait_and_not_for_as_long_as_its_shard(
    table: Table, fed: Runs
) -> None:
    fed.shards.feed(REF, "another", 0.0)
    [days] = {round((row["expiresAt"] - time.time()) / 86_400, 2) for row in table.query("run#r1", "token#")}
    assert QUEUE_DAYS < days <= QUEUE_DAYS + 1
    [row] = table.query("run#r1", "shard#")
    assert row["expiresAt"] - time.time() > 300 * 86_400


def test_shards_that_are_fed_at_once_do_not_exceed_the_budget_together(runs: Runs) -> None:
    with ThreadPoolExecutor(8) as pool:
        reserved = list(pool.map(lambda number: runs.reserve("r1", f"{number:05}", 0.3, budget=1.0), range(24)))
    row = runs.get("r1")
    assert row is not None
    assert (sum(reserved), len(row.reservations)) == (3, 3)
    assert row.charged_dollars == pytest.approx(0.9)


def test_a_run_of_an_earlier_release_gets_the_reservations_that_its_shards_would_have(table: Table, fed: Runs) -> None:
    ended = REF.model_copy(update={"shard": "00001"})
    fed.shards.feed(ended, "another", expected_dollars=9.0)
    fed.end_shard("r1", ended.shard, ShardFacts(succeeded=4, dollars=3.0))
    table.update("run#r1", "run", "REMOVE #reservations, #chargedDollars")
    old = fed.get("r1")
    assert old is not None and [row.shard for row in fed.in_flight(old)] == [REF.shard]
    row = fed.add_reservations(old)
    assert (row.reservations, row.charged_dollars) == ({REF.shard: 2.0}, 5.0)
    assert fed.reserve("r1", "00002", 1.0, budget=6.0) and not fed.reserve("r1", "00003", 1.0, budget=6.0)


def test_a_reservation_is_kept_when_a_shard_is_fed_again_and_replaced_by_its_cost_once(fed: Runs) -> None:
    def charged() -> float:
        row = fed.get("r1")
        assert row is not None
        return row.charged_dollars

    assert fed.reserve("r1", "00000", 2.0, budget=2.0)
    assert fed.reserve("r1", "00000", 2.0, budget=2.0), "its reservation allows it"
    assert not fed.reserve("r1", "00001", 0.1, budget=2.0)
    fed.shards.count("r1", "00000", {0: GOOD, 1: GOOD})
    parked = fed.shards.park("r1", "00000")
    assert parked is not None
    fed.settle_parked(parked)
    assert charged() == 0.5
    assert fed.reserve("r1", "00000", 1.0, budget=2.0)
    fed.shards.feed(REF, "next", 1.0)
    fed.end_shard("r1", "00000", ShardFacts(succeeded=4, dollars=1.25))
    fed.end_shard("r1", "00000", ShardFacts(succeeded=4, dollars=1.25))
    assert charged() == 1.25, "what the parked part had cost is not counted twice"


def test_an_ended_shard_stays_ended_when_it_is_fed_again(fed: Runs) -> None:
    fed.end_shard("r1", "00000", ShardFacts())
    assert fed.shards.feed(REF, "late", 0.0).state == "ENDED"
    assert not shard(fed).is_awaited


def test_a_held_run_goes_on_with_another_budget(runs: Runs) -> None:
    assert runs.hold("r1", "the budget is spent").state == "HELD"
    row = runs.begin("r1", "e2", max_dollars=10)
    assert (row.state, row.max_dollars, row.reason, row.execution_arn) == ("RUNNING", 10, None, "e2")


def test_a_cancelled_run_is_not_held_and_keeps_its_reason(runs: Runs) -> None:
    assert runs.cancel("r1", "by a person").stops
    held = runs.hold("r1", "budget")
    assert (held.state, held.reason) == ("CANCELLED", "by a person")
    with pytest.raises(ConditionFailed):
        runs.cancel("r9", "there is none")


def test_only_the_latest_execution_ends_a_run(runs: Runs) -> None:
    runs.begin("r1", "e2")
    assert not runs.end("r1", "e1", "SUCCEEDED", None)
    assert runs.end("r1", "e2", "SUCCEEDED", None)
    row = runs.get("r1")
    assert row is not None
    assert (row.state, row.ended_at is not None) == ("SUCCEEDED", True)
    assert list(runs.active()) == []
    runs.begin("r1", "e3")
    assert [active.id for active in runs.active()] == ["r1"]


def test_a_watcher_is_read_as_it_was_written() -> None:
    watcher = Watcher("my_run-1", "00012", 7)
    assert Watcher.parse(watcher.text) == watcher
