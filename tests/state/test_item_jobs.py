"""Items of runs share the row of a job: who waits for it, who reuses its end, and when it is done again."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import (
    Attempt,
    ConditionFailed,
    ItemFacts,
    ItemJobs,
    JobRow,
    Table,
    Waiting,
    Watcher,
    end_of,
    item_jobs,
)
from cosmos_batch.state.item_jobs import EARLIER_ITEMS, REUSED_FOR, SERVED_ITEMS
from cosmos_batch.state.job_rows import MESSAGE_LIFE
from tests.support.jobs import make_job

SHARED = Attempt(id="shared", worker="w1", solo=False)
ERROR = Error(code="EngineFailed", message="m", remedy="r")
GOOD = Result(job_id="j", outputs=[Output(uri="s3://assets/j.json", size=1, content_type="application/json")])
BAD = Result(job_id="j", error=ERROR)
WATCHER, OTHER = Watcher("r1", "00000", 0), Watcher("r2", "00003", 7)
RETRYABLE = Result(job_id="i", error=ERROR.model_copy(update={"retryable": True}))


def row_of_item(jobs: ItemJobs) -> JobRow:
    job_row = jobs.get("i")
    assert job_row is not None
    return job_row


def ended(jobs: ItemJobs, result: Result) -> None:
    """Bring the job of an item to its end."""
    jobs.open_attempt("i", SHARED)
    jobs.commit("i", "shared", result)
    jobs.finish("i", result.error)


@pytest.fixture
def items(table: Table) -> ItemJobs:
    jobs = ItemJobs(table)
    assert jobs.watch(make_job("i"), WATCHER, retry=False)[0] == "send"
    return jobs


def test_a_job_is_to_be_sent_until_somebody_has_noted_that_it_was(items: ItemJobs) -> None:
    what, job_row = items.watch(make_job("i"), OTHER, retry=False)
    assert what == "send", "the first run may have ended before it sent the message"
    items.sent(job_row)
    assert items.watch(make_job("i"), WATCHER, retry=False)[0] == "joined"
    assert items.unsent("i")
    assert items.watch(make_job("i"), WATCHER, retry=False)[0] == "send"
    items.open_attempt("i", SHARED)
    assert not items.unsent("i"), "a worker has it"
    what, job_row = items.watch(make_job("i"), WATCHER, retry=False)
    assert (what, job_row.watchers, job_row.paid_by) == ("joined", {WATCHER.text, OTHER.text}, "r1")


def test_a_message_that_sqs_will_soon_delete_counts_as_not_sent(items: ItemJobs, table: Table) -> None:
    then = (datetime.now(UTC) - MESSAGE_LIFE).isoformat()
    table.update("job#i", "job", "SET #sentAt = :then", {"then": then})
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_a_late_note_about_an_earlier_message_says_nothing_about_a_job_that_is_done_again(items: ItemJobs) -> None:
    first = row_of_item(items)
    ended(items, RETRYABLE)
    items.watch(make_job("i"), OTHER, retry=False)
    items.sent(first)
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_a_job_in_flight_has_until_the_latest_deadline_of_those_who_wait_for_it(items: ItemJobs) -> None:
    first = make_job("i").deadline
    for days in (3, -3, 1):
        items.watch(make_job("i").model_copy(update={"deadline": first + timedelta(days=days)}), OTHER, retry=False)
    deadline = row_of_item(items).deadline
    assert deadline is not None and datetime.fromisoformat(deadline) == first + timedelta(days=3)


def test_an_item_that_leaves_is_not_an_end_of_the_job_and_the_last_one_cancels_it(items: ItemJobs) -> None:
    items.watch(make_job("i"), OTHER, retry=False)
    assert items.leave("i", OTHER)
    assert (row_of_item(items).state, row_of_item(items).watchers) == ("PLANNED", {WATCHER.text})
    assert items.leave("i", WATCHER)
    assert row_of_item(items).state == "CANCELLED"
    assert items.leave("never planned", WATCHER)


def test_an_item_cannot_leave_a_job_that_a_worker_does_or_that_has_ended(items: ItemJobs) -> None:
    items.open_attempt("i", SHARED)
    assert not items.leave("i", WATCHER)
    items.commit("i", "shared", GOOD)
    items.finish("i", None)
    assert not items.leave("i", WATCHER)


def test_an_answer_is_used_again(items: ItemJobs) -> None:
    ended(items, GOOD)
    what, job_row = items.watch(make_job("i"), OTHER, retry=True)
    assert (what, job_row.state, job_row.watchers) == ("ended", "SUCCEEDED", {WATCHER.text})


def test_an_answer_that_will_soon_expire_is_not_used_again(items: ItemJobs, table: Table) -> None:
    ended(items, GOOD)
    planned = (datetime.now(UTC) - REUSED_FOR).isoformat(timespec="milliseconds")
    table.update("job#i", "job", "SET #stages.#planned = :planned", {"planned": planned})
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


@pytest.mark.parametrize(("result", "retry", "expected"), [(BAD, False, "ended"), (BAD, True, "send")])
def test_an_error_that_does_not_pass_is_tried_again_only_on_request(
    items: ItemJobs, result: Result, retry: bool, expected: str
) -> None:
    ended(items, result)
    assert items.watch(make_job("i"), OTHER, retry)[0] == expected


def test_a_job_that_is_done_again_keeps_its_earlier_end_for_those_whose_end_it_was(items: ItemJobs) -> None:
    third = Watcher("r3", "00001", 2)
    ended(items, RETRYABLE)
    what, job_row = items.watch(make_job("i"), OTHER, retry=False)
    assert (what, job_row.state, job_row.attempts, job_row.paid_by) == ("send", "PLANNED", 0, "r2")
    assert (job_row.winner, job_row.result, job_row.opened, job_row.suspect) == (None, None, set(), False)
    assert job_row.watchers == {OTHER.text}
    ended(items, GOOD)
    job_row = items.watch(make_job("i"), third, retry=False)[1]
    assert job_row.reused_by == {third.text}
    first, second = job_row.end_for(WATCHER), job_row.end_for(OTHER)
    assert first is not None and second is not None
    assert (first.state, first.result, first.paid_by) == ("FAILED", RETRYABLE, "r1")
    assert (second.state, second.result, job_row.end_for(third)) == ("SUCCEEDED", GOOD, job_row)
    assert items.watch(make_job("i"), WATCHER, retry=True)[0] == "ended", "an item has one end"
    assert job_row.end_for(Watcher("r4", "00000", 0)) is None


def test_two_equal_items_of_a_run_pay_once(items: ItemJobs) -> None:
    twin = Watcher("r1", "00000", 5)
    items.watch(make_job("i"), twin, retry=False)
    items.watch(make_job("i"), OTHER, retry=False)
    items.open_attempt("i", SHARED)
    items.commit("i", "shared", GOOD, facts=ItemFacts(2.0, 0.5, "c"))
    job_row = items.finish("i", None)
    assert job_row is not None
    assert [end_of(job_row, watcher).dollars for watcher in (WATCHER, twin, OTHER)] == [0.5, 0, 0]


# What attempts cost that have no result

LATER = Attempt(id="later", worker="w2", solo=False)
WITHOUT_RESULT, FACTS = ItemFacts(1.5, 0.25), ItemFacts(2.0, 0.5, "c")
PAUSE = Waiting(reason="It is busy.", until="2026-11-12T00:00:00+00:00")
CLOSINGS: list[Callable[[ItemJobs], object]] = [
    lambda jobs: jobs.undo_attempt("i", "shared", WITHOUT_RESULT),
    lambda jobs: jobs.spend_attempt("i", "shared", ERROR, WITHOUT_RESULT),
    lambda jobs: jobs.pause("i", "shared", PAUSE, False, WITHOUT_RESULT),
    lambda jobs: jobs.close_lost_attempt(row_of_item(jobs), ERROR, WITHOUT_RESULT),
]


def cost_of_item(jobs: ItemJobs) -> tuple[float, float]:
    return row_of_item(jobs).gpu_seconds, row_of_item(jobs).dollars


@pytest.mark.parametrize("close", CLOSINGS, ids=["given back", "failed", "paused", "lost with its engine"])
def test_an_attempt_without_a_result_adds_its_cost_once(items: ItemJobs, close: Callable[[ItemJobs], object]) -> None:
    items.open_attempt("i", SHARED)
    close(items)
    close(items)
    items.add_cost("i", "shared", WITHOUT_RESULT)
    assert cost_of_item(items) == (1.5, 0.25)
    items.open_attempt("i", LATER)
    items.commit("i", "later", GOOD, facts=FACTS)
    ended_row = items.finish("i", None)
    assert ended_row is not None
    assert (end_of(ended_row, WATCHER).gpu_seconds, end_of(ended_row, WATCHER).dollars) == (3.5, 0.75)


def test_of_two_attempts_at_once_both_costs_count_whichever_ends_first(items: ItemJobs) -> None:
    """A message was delivered twice: the row has the later attempt as the one that is open."""
    for attempt in (SHARED, LATER):
        items.open_attempt("i", attempt)
    for _ in range(2):
        items.undo_attempt("i", "shared", WITHOUT_RESULT)
    assert cost_of_item(items) == (1.5, 0.25)
    items.open_attempt("i", SHARED)
    items.commit("i", "later", GOOD, facts=FACTS)
    with pytest.raises(ConditionFailed):
        items.commit("i", "shared", GOOD, facts=FACTS)
    for attempt in ("shared", "shared", "later"):
        items.add_cost("i", attempt, FACTS)
    assert cost_of_item(items) == (5.5, 1.25), "the winner's is in the row since it has won"


def test_an_attempt_that_was_closed_as_lost_adds_its_cost_if_it_wins_all_the_same(items: ItemJobs) -> None:
    items.close_lost_attempt(items.open_attempt("i", SHARED))
    items.commit("i", "shared", GOOD, facts=FACTS)
    assert cost_of_item(items) == (2.0, 0.5)


@pytest.mark.parametrize(("late", "facts"), [(GOOD, FACTS), (BAD, None)], ids=["answer", "error before the engine"])
def test_an_attempt_of_an_earlier_plan_of_the_job_does_not_decide_it(
    items: ItemJobs, late: Result, facts: ItemFacts | None
) -> None:
    before = items.open_attempt("i", SHARED).stages["planned"]
    ended(items, RETRYABLE)
    anew = items.watch(make_job("i"), OTHER, retry=False)[1].stages["planned"]
    with pytest.raises(ConditionFailed):
        items.commit("i", "shared", late, facts=facts, planned_at=before)
    assert (row_of_item(items).state, row_of_item(items).watchers) == ("PLANNED", {OTHER.text})
    assert items.commit("i", "shared", late, facts=facts, planned_at=anew).winner == "shared"


def test_what_a_cancelled_attempt_has_cost_counts_when_its_run_goes_on_and_not_in_another_run(items: ItemJobs) -> None:
    def cancel() -> None:
        items.open_attempt("i", SHARED)
        items.close("i", Result(job_id="i", error=ERROR), cancelled=True)
        items.undo_attempt("i", "shared", WITHOUT_RESULT)

    cancel()
    items.watch(make_job("i"), WATCHER, retry=False)
    assert cost_of_item(items) == (1.5, 0.25)
    cancel()
    items.watch(make_job("i"), OTHER, retry=False)
    assert cost_of_item(items) == (0.0, 0.0)
    before = row_of_item(items).end_for(WATCHER)
    assert before is not None and end_of(before, WATCHER).dollars == 0.5


def test_two_runs_that_ask_a_failed_job_again_at_once_wait_for_one_attempt(
    items: ItemJobs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = Watcher("r3", "00000", 0)
    ended(items, RETRYABLE)
    faster = ItemJobs(table)
    read = items.get

    def read_too_late(job_id: str) -> JobRow | None:
        before = read(job_id)
        if before is not None and before.state == "FAILED":
            faster.sent(faster.watch(make_job("i"), third, retry=False)[1])
        return before

    monkeypatch.setattr(items, "get", read_too_late)
    what, job_row = items.watch(make_job("i"), OTHER, retry=False)
    assert (what, job_row.state) == ("joined", "PLANNED")
    assert job_row.watchers == {third.text, OTHER.text}


def test_a_job_that_somebody_joined_meanwhile_is_not_closed(items: ItemJobs) -> None:
    before = items.watch(make_job("i"), WATCHER, retry=False)[1]
    items.watch(make_job("i"), OTHER, retry=False)
    left = items.close("i", Result(job_id="i", error=ERROR), cancelled=True, watchers=before.watchers)
    assert left is not None and left.state == "PLANNED"
    closed = items.close("i", Result(job_id="i", error=ERROR), cancelled=True, watchers=left.watchers)
    assert closed is not None and closed.state == "CANCELLED"
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_the_jobs_of_items_are_not_counted_one_by_one_as_waiting_work(items: ItemJobs, table: Table) -> None:
    ended(items, GOOD)
    assert table.get("pipeline#cosmos-reason2-2b", "pipeline") is None


# An answer serves so many items


def test_an_item_that_finds_a_job_full_asks_again_when_it_has_ended(
    items: ItemJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = Watcher("r3", "00000", 1)
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 2)
    items.watch(make_job("i"), OTHER, retry=False)
    assert items.watch(make_job("i"), third, retry=False)[0] == "full"
    assert row_of_item(items).watchers == {WATCHER.text, OTHER.text}
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send", "it waits already"
    ended(items, GOOD)
    what, job_row = items.watch(make_job("i"), third, retry=False)
    assert (what, job_row.state, job_row.watchers, job_row.paid_by) == ("send", "PLANNED", {third.text}, "r3")
    assert all(job_row.end_for(watcher) is not None for watcher in (WATCHER, OTHER))


def test_an_answer_that_has_served_enough_later_runs_is_asked_again(
    items: ItemJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 3)
    ended(items, GOOD)
    later = [Watcher(f"r{number}", "00000", 0) for number in range(2, 6)]
    outcomes = [items.watch(make_job("i"), watcher, retry=False)[0] for watcher in later]
    assert outcomes == ["ended", "ended", "send", "send"]
    assert items.watch(make_job("i"), later[0], retry=False)[0] == "ended", "its end stays"


@pytest.mark.parametrize("running", [True, False])
def test_items_that_come_at_once_do_not_overfill_a_job(
    items: ItemJobs, table: Table, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    """The row was read before others came: the write itself compares."""
    monkeypatch.setattr(item_jobs, "SERVED_ITEMS", 2)
    if not running:
        ended(items, GOOD)
    faster, read, late = ItemJobs(table), items.get, list[JobRow | None]()

    def read_before_another(job_id: str) -> JobRow | None:
        late.append(read(job_id))
        if len(late) == 1:
            faster.watch(make_job("i"), Watcher("r3", "00000", 0), retry=False)
        return late[-1]

    monkeypatch.setattr(items, "get", read_before_another)
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == ("full" if running else "send")
    assert row_of_item(faster).items == (2 if running else 1)


def test_the_row_of_a_job_stays_within_what_dynamodb_takes(items: ItemJobs, table: Table) -> None:
    """Rows have 400 KB at most; the names of the runs are as long as they may be."""
    for round_number in range(8):
        names = {Watcher("r" * 62 + f"{round_number:02}", "00000", 1000 + item).text for item in range(SERVED_ITEMS)}
        table.update("job#i", "job", "SET #watchers = :names", {"names": names})
        ended(items, GOOD)
        assert items.watch(make_job("i"), Watcher("new", f"{round_number:05}", 0), retry=False)[0] == "send"
    kept = row_of_item(items).earlier
    assert sum(end.items for end in kept) == EARLIER_ITEMS and len(names & kept[-1].watchers) == SERVED_ITEMS
    assert len(json.dumps(table.get("job#i", "job"), default=sorted)) < 200_000


# A copy of the model that a run wants to have no more


def test_a_run_that_invalidates_the_model_uses_no_answer_of_another_run(items: ItemJobs) -> None:
    job = make_job("i").model_copy(update={"invalidate_model": True})
    ended(items, GOOD)
    assert items.watch(job, OTHER, retry=False)[0] == "send"
    ended(items, GOOD)
    twin = Watcher(OTHER.run, "00009", 1)
    assert items.watch(job, twin, retry=False)[0] == "ended", "its own answer is used"
    third = "another-run"
    assert items.watch(job, Watcher(third, "00000", 0), retry=False)[0] == "send"
    ended(items, GOOD)
    assert items.watch(job, Watcher(OTHER.run, "00009", 2), retry=False)[0] == "ended", "it has paid for one already"
