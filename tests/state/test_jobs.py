"""The row of a job: which attempts count, and that its end is decided once."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Output, Result
from cosmos_batch.state import Attempt, ConditionFailed, ItemFacts, JobRow, Jobs, Table, Waiting, Watcher, end_of
from cosmos_batch.state.job_rows import MESSAGE_LIFE
from cosmos_batch.state.jobs import REUSED_FOR
from tests.state.conftest import client
from tests.support.jobs import make_job

SHARED, SOLO = Attempt(id="shared", worker="w1", solo=False), Attempt(id="solo", worker="w2", solo=True)
ERROR = Error(code="EngineFailed", message="m", remedy="r")
GOOD = Result(job_id="j", outputs=[Output(uri="s3://assets/j.json", size=1, content_type="application/json")])
BAD = Result(job_id="j", error=ERROR)


@pytest.fixture
def jobs(table: Table) -> Jobs:
    jobs = Jobs(table)
    jobs.create(make_job("j"))
    return jobs


def row(jobs: Jobs) -> JobRow:
    job_row = jobs.get("j")
    assert job_row is not None
    return job_row


def test_a_job_that_is_planned_again_keeps_its_row(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.create(make_job("j"))
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.worker) == ("RUNNING", 1, SHARED, "w1")
    assert (job_row.input, job_row.document) == ("s3://assets/clip.mp4", "s3://assets/j.json")
    assert jobs.get("never planned") is None


@pytest.fixture
def lost_response() -> Iterator[list[str]]:
    """Write the first UpdateItem but lose its response, so that botocore sends it again. The list has each response."""
    answers: list[str] = []

    def lose_the_first(response: object, **_: object) -> int | None:
        answers.append("lost" if not answers else "arrived")
        return 0 if answers == ["lost"] else None

    client().meta.events.register_first("needs-retry.dynamodb.UpdateItem", lose_the_first)
    yield answers
    client().meta.events.unregister("needs-retry.dynamodb.UpdateItem", lose_the_first)


def test_an_attempt_counts_once_if_its_response_was_lost(jobs: Jobs, lost_response: list[str]) -> None:
    opened = jobs.open_attempt("j", SHARED)
    assert lost_response == ["lost", "arrived"]
    assert (opened.attempts, opened.open_attempt) == (1, SHARED)


def test_a_repeated_attempt_does_not_replace_a_later_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    assert jobs.open_attempt("j", SHARED).open_attempt == SOLO
    assert row(jobs).attempts == 2


@pytest.mark.parametrize(
    ("end", "attempts"),
    [
        (lambda jobs: jobs.undo_attempt("j", "solo"), 1),
        (lambda jobs: jobs.spend_attempt("j", "solo", ERROR), 2),
        (lambda jobs: jobs.settle_lost(row(jobs)), 2),
    ],
    ids=["taken back", "spent", "lost alone"],
)
def test_an_attempt_that_has_ended_may_be_opened_again(
    jobs: Jobs, end: Callable[[Jobs], object], attempts: int
) -> None:
    jobs.open_attempt("j", SOLO)
    end(jobs)
    assert row(jobs).opened == set()
    assert jobs.open_attempt("j", SOLO).attempts == attempts


def test_an_attempt_is_counted_in_a_row_of_an_older_version(jobs: Jobs, table: Table) -> None:
    old = Attempt(id="of-the-older-version", worker="w0", solo=False)
    values = {"attempt": old.model_dump(by_alias=True), "running": "RUNNING", "one": 1}
    table.update("job#j", "job", "SET #openAttempt = :attempt, #state = :running, #attempts = :one", values)
    assert jobs.open_attempt("j", SOLO).attempts == 2


def test_a_job_that_is_given_back_has_lost_no_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.undo_attempt("j", "shared")
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.suspect) == ("PLANNED", 0, None, False)


WAITING = Waiting(reason="It is busy.", until="2026-11-12T00:00:00+00:00")


def test_a_paused_job_has_lost_no_attempt_and_is_no_suspect(jobs: Jobs) -> None:
    for number, interrupted in enumerate((False, True, False)):
        attempt = Attempt(id=f"a{number}", worker="w", solo=number == 1)
        assert jobs.open_attempt("j", attempt).waiting is None, "it waits no more"
        jobs.pause("j", attempt.id, WAITING, interrupted)
    job_row = row(jobs)
    assert (job_row.state, job_row.attempts, job_row.open_attempt, job_row.suspect) == ("PLANNED", 0, None, False)
    assert (job_row.waiting, job_row.pauses, job_row.interruptions) == (WAITING, 3, 1)


def test_a_job_that_was_decided_meanwhile_is_not_paused(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.commit("j", "solo", GOOD)
    jobs.pause("j", "shared", WAITING, interrupted=False)
    assert (row(jobs).state, row(jobs).waiting) == ("COMMITTED", None)


def test_a_late_worker_cannot_undo_another_workers_attempt(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    jobs.undo_attempt("j", "shared")
    assert row(jobs).open_attempt == SOLO
    assert row(jobs).attempts == 2


@pytest.mark.parametrize(("attempt", "counted"), [(SHARED, 0), (SOLO, 1)])
def test_a_lost_attempt_counts_only_if_it_ran_alone(jobs: Jobs, attempt: Attempt, counted: int) -> None:
    job_row = jobs.settle_lost(jobs.open_attempt("j", attempt))
    assert (job_row.attempts, job_row.suspect, job_row.open_attempt, job_row.state) == (counted, True, None, "PLANNED")


def test_two_workers_settle_a_lost_attempt_once(jobs: Jobs) -> None:
    lost = jobs.open_attempt("j", SHARED)
    jobs.settle_lost(lost)
    assert jobs.settle_lost(lost).attempts == 0


def test_a_failed_attempt_counts_and_makes_a_suspect(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.spend_attempt("j", "shared", ERROR)
    job_row = row(jobs)
    assert (job_row.attempts, job_row.suspect, job_row.state, job_row.last_error) == (1, True, "PLANNED", ERROR)


def test_a_single_attempt_of_a_job_wins(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.open_attempt("j", SOLO)
    assert jobs.commit("j", "solo", GOOD).winner == "solo"
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", BAD)
    with pytest.raises(ConditionFailed):
        jobs.open_attempt("j", SHARED)
    job_row = row(jobs)
    assert (job_row.state, job_row.result, job_row.open_attempt) == ("COMMITTED", GOOD, None)


@pytest.mark.parametrize(("error", "state"), [(None, "SUCCEEDED"), (ERROR, "FAILED")])
def test_a_job_that_is_finished_twice_ended_once(jobs: Jobs, error: Error | None, state: str) -> None:
    jobs.commit("j", "a", GOOD)
    jobs.finish("j", error)
    jobs.finish("j", error)
    assert row(jobs).state == state
    assert row(jobs).result == (GOOD if error is None else BAD), "what could not be delivered is no result"
    assert "calledBack" in row(jobs).stages


@pytest.mark.parametrize(
    ("errors", "state", "result"), [((None, ERROR), "SUCCEEDED", GOOD), ((ERROR, None), "FAILED", BAD)]
)
def test_the_first_end_of_a_job_stays(jobs: Jobs, errors: tuple[Error | None, ...], state: str, result: Result) -> None:
    """A dead letter and a worker end the same job, in either order."""
    jobs.commit("j", "a", GOOD)
    for error in errors:
        jobs.finish("j", error)
    assert (row(jobs).state, row(jobs).result) == (state, result)


@pytest.mark.parametrize("cancelled", [True, False])
def test_a_closed_job_has_no_further_attempt(jobs: Jobs, cancelled: bool) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled)
    jobs.close("j", GOOD, cancelled)
    assert row(jobs).state == ("CANCELLED" if cancelled else "FAILED")
    assert row(jobs).result == BAD
    with pytest.raises(ConditionFailed):
        jobs.open_attempt("j", SOLO)


def test_a_cancelled_job_cannot_be_won_or_finished(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled=True)
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", GOOD)
    jobs.finish("j", None)
    assert row(jobs).state == "CANCELLED"


def test_a_failed_job_cannot_be_won(jobs: Jobs) -> None:
    jobs.open_attempt("j", SHARED)
    jobs.close("j", BAD, cancelled=False)
    with pytest.raises(ConditionFailed):
        jobs.commit("j", "shared", GOOD)


def test_a_committed_job_cannot_be_closed(jobs: Jobs) -> None:
    jobs.commit("j", "a", GOOD)
    jobs.close("j", BAD, cancelled=True)
    assert (row(jobs).state, row(jobs).result) == ("COMMITTED", GOOD)


def test_finishing_an_unknown_job_creates_no_row(jobs: Jobs) -> None:
    jobs.finish("other", None)
    jobs.close("other", BAD, cancelled=True)
    assert jobs.get("other") is None


def test_a_row_of_a_newer_version_can_be_read(jobs: Jobs, table: Table) -> None:
    table.update("job#j", "job", "SET #fromTheFuture = :yes", {"yes": True})
    jobs.stamp("j", "received")
    assert "received" in row(jobs).stages


WATCHER, OTHER = Watcher("r1", "00000", 0), Watcher("r2", "00003", 7)
RETRYABLE = Result(job_id="i", error=ERROR.model_copy(update={"retryable": True}))


def row_of_item(jobs: Jobs) -> JobRow:
    job_row = jobs.get("i")
    assert job_row is not None
    return job_row


def ended(jobs: Jobs, result: Result) -> None:
    """Bring the job of an item to its end."""
    jobs.open_attempt("i", SHARED)
    jobs.commit("i", "shared", result)
    jobs.finish("i", result.error)


@pytest.fixture
def items(table: Table) -> Jobs:
    jobs = Jobs(table)
    assert jobs.watch(make_job("i"), WATCHER, retry=False)[0] == "send"
    return jobs


def test_a_job_is_to_be_sent_until_somebody_has_noted_that_it_was(items: Jobs) -> None:
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


def test_a_message_that_sqs_will_soon_delete_counts_as_not_sent(items: Jobs, table: Table) -> None:
    then = (datetime.now(UTC) - MESSAGE_LIFE).isoformat()
    table.update("job#i", "job", "SET #sentAt = :then", {"then": then})
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_a_late_note_about_an_earlier_message_says_nothing_about_a_job_that_is_done_again(items: Jobs) -> None:
    first = row_of_item(items)
    ended(items, RETRYABLE)
    items.watch(make_job("i"), OTHER, retry=False)
    items.sent(first)
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_a_job_in_flight_has_until_the_latest_deadline_of_those_who_wait_for_it(items: Jobs) -> None:
    first = make_job("i").deadline
    for days in (3, -3, 1):
        items.watch(make_job("i").model_copy(update={"deadline": first + timedelta(days=days)}), OTHER, retry=False)
    deadline = row_of_item(items).deadline
    assert deadline is not None and datetime.fromisoformat(deadline) == first + timedelta(days=3)


def test_an_item_that_leaves_is_not_an_end_of_the_job_and_the_last_one_cancels_it(items: Jobs) -> None:
    items.watch(make_job("i"), OTHER, retry=False)
    assert items.leave("i", OTHER)
    assert (row_of_item(items).state, row_of_item(items).watchers) == ("PLANNED", {WATCHER.text})
    assert items.leave("i", WATCHER)
    assert row_of_item(items).state == "CANCELLED"
    assert items.leave("never planned", WATCHER)


def test_an_item_cannot_leave_a_job_that_a_worker_does_or_that_has_ended(items: Jobs) -> None:
    items.open_attempt("i", SHARED)
    assert not items.leave("i", WATCHER)
    items.commit("i", "shared", GOOD)
    items.finish("i", None)
    assert not items.leave("i", WATCHER)


def test_an_answer_is_used_again(items: Jobs) -> None:
    ended(items, GOOD)
    what, job_row = items.watch(make_job("i"), OTHER, retry=True)
    assert (what, job_row.state, job_row.watchers) == ("ended", "SUCCEEDED", {WATCHER.text})


def test_an_answer_that_will_soon_expire_is_not_used_again(items: Jobs, table: Table) -> None:
    ended(items, GOOD)
    planned = (datetime.now(UTC) - REUSED_FOR).isoformat(timespec="milliseconds")
    table.update("job#i", "job", "SET #stages.#planned = :planned", {"planned": planned})
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


@pytest.mark.parametrize(("result", "retry", "expected"), [(BAD, False, "ended"), (BAD, True, "send")])
def test_an_error_that_does_not_pass_is_tried_again_only_on_request(
    items: Jobs, result: Result, retry: bool, expected: str
) -> None:
    ended(items, result)
    assert items.watch(make_job("i"), OTHER, retry)[0] == expected


def test_a_job_that_is_done_again_keeps_its_earlier_end_for_those_whose_end_it_was(items: Jobs) -> None:
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


def test_two_equal_items_of_a_run_pay_once(items: Jobs) -> None:
    twin = Watcher("r1", "00000", 5)
    items.watch(make_job("i"), twin, retry=False)
    items.watch(make_job("i"), OTHER, retry=False)
    items.open_attempt("i", SHARED)
    items.commit("i", "shared", GOOD, facts=ItemFacts(2.0, 0.5, "c"))
    job_row = items.finish("i", None)
    assert job_row is not None
    assert [end_of(job_row, watcher).dollars for watcher in (WATCHER, twin, OTHER)] == [0.5, 0, 0]


def test_two_runs_that_ask_a_failed_job_again_at_once_wait_for_one_attempt(
    items: Jobs, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    third = Watcher("r3", "00000", 0)
    ended(items, RETRYABLE)
    faster = Jobs(table)
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


def test_a_job_that_somebody_joined_meanwhile_is_not_closed(items: Jobs) -> None:
    before = items.watch(make_job("i"), WATCHER, retry=False)[1]
    items.watch(make_job("i"), OTHER, retry=False)
    left = items.close("i", Result(job_id="i", error=ERROR), cancelled=True, watchers=before.watchers)
    assert left is not None and left.state == "PLANNED"
    closed = items.close("i", Result(job_id="i", error=ERROR), cancelled=True, watchers=left.watchers)
    assert closed is not None and closed.state == "CANCELLED"
    assert items.watch(make_job("i"), OTHER, retry=False)[0] == "send"


def test_the_jobs_of_items_are_not_counted_one_by_one_as_waiting_work(items: Jobs, table: Table) -> None:
    ended(items, GOOD)
    assert table.get("pipeline#cosmos-reason2-2b", "pipeline") is None
