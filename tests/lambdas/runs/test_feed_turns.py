"""Shards take turns, so that many that are fed at once do not exceed what the table and S3 take."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from cosmos_batch.contract.runs import SHARD_ITEMS
from cosmos_batch.state import FeedTurns
from cosmos_batch.state.feed_turns import ITEMS_PER_SECOND, LONGEST_WAIT
from infra.constructs.function_errors import PASSING
from lambdas.runs import feed
from tests.lambdas.cloud import Cloud
from tests.lambdas.runs.conftest import RUN, RunFixture

NOW = 1_800_000_000.0
TURN = round(SHARD_ITEMS / ITEMS_PER_SECOND, 3)


class Clock:
    """The `time` of the module that feeds: it stands still, and notes how long it was to sleep.

    `meanwhile` is called while it sleeps.
    """

    def __init__(self, now: float) -> None:
        self.now, self.slept = now, list[float]()
        self.meanwhile: Callable[[], object] = lambda: None

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.meanwhile()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(NOW)
    monkeypatch.setattr(feed, "time", SimpleNamespace(time=clock.time, sleep=clock.sleep))
    return clock


def test_each_turn_begins_when_the_one_before_is_over(cloud: Cloud) -> None:
    turns = FeedTurns(cloud.table)
    assert [turns.take(SHARD_ITEMS, NOW) for _ in range(3)] == pytest.approx([0, TURN, 2 * TURN])
    assert turns.take(SHARD_ITEMS, NOW + 60) == 0, "nobody has fed for a while"


def test_turns_that_many_take_at_once_never_exceed_the_pace(cloud: Cloud) -> None:
    turns = FeedTurns(cloud.table)
    with ThreadPoolExecutor(16) as pool:
        taken = list(pool.map(lambda _: turns.take(SHARD_ITEMS, NOW), range(40)))
    waits = sorted(seconds for seconds in taken if seconds is not None)
    assert waits == pytest.approx([TURN * number for number in range(len(waits))])
    assert waits[-1] <= LONGEST_WAIT < TURN * len(waits), "and as many get a turn as may"


def test_a_shard_waits_for_its_turn_before_it_is_fed(bench: RunFixture, clock: Clock) -> None:
    FeedTurns(bench.cloud.table).take(SHARD_ITEMS, NOW)
    bench.started(bench.items("a"))
    assert clock.slept == [pytest.approx(TURN)]
    assert bench.shard().state == "RUNNING" and len(bench.sent()) == 1


def test_a_shard_whose_turn_is_far_is_fed_by_a_later_call(bench: RunFixture, clock: Clock) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    while FeedTurns(bench.cloud.table).take(SHARD_ITEMS, NOW) is not None:
        pass
    bench.feed(ref)
    [answer] = bench.cloud.stepfunctions.answers
    assert answer["taskToken"] == "shard-token" and answer["error"] in PASSING, "the state calls it for days"
    run = bench.runs.get(RUN)
    assert run is not None and run.reservations == {}
    assert (bench.runs.shards.get(RUN, ref.shard), bench.sent()) == (None, [])
    clock.now += 60
    bench.feed(ref, token="later")
    assert bench.shard().state == "RUNNING" and len(bench.sent()) == 1


def test_a_shard_of_a_run_that_was_stopped_waits_for_no_turn(bench: RunFixture, clock: Clock) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    bench.runs.cancel(RUN, "by a person")
    FeedTurns(bench.cloud.table).take(SHARD_ITEMS, NOW)
    bench.feed(ref)
    assert clock.slept == [] and bench.answered() == ["shard-token"]


def test_a_run_that_is_held_while_a_shard_waits_for_its_turn_is_not_fed(bench: RunFixture, clock: Clock) -> None:
    ref = bench.write(bench.items("a"))
    bench.prepare()
    FeedTurns(bench.cloud.table).take(SHARD_ITEMS, NOW)
    clock.meanwhile = lambda: bench.runs.hold(RUN, "No worker can start.")
    bench.feed(ref)
    assert bench.sent() == [] and bench.answered() == ["shard-token"]


def test_a_shard_that_is_fed_again_takes_a_turn_for_what_is_left_of_it(bench: RunFixture, clock: Clock) -> None:
    ref = bench.started(bench.items("a", "b"))
    bench.answer(bench.sent()[0]["job"]["jobId"])
    clock.now += 60
    bench.feed(ref, token="again")
    assert FeedTurns(bench.cloud.table).take(1, clock.now) == pytest.approx(1 / ITEMS_PER_SECOND, abs=1e-3)
