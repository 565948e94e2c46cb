"""The small parts of a worker, each by itself."""

import asyncio
import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cosmos_batch.contract.document import JOB_LOGS_LIMIT
from cosmos_batch.worker import spot
from cosmos_batch.worker.documents import job_logs
from cosmos_batch.worker.leases import LeaseHolder, LeaseKeeper
from cosmos_batch.worker.pace import Measure, Pace
from cosmos_batch.worker.queue import NewerSchema, Unreadable, read
from cosmos_batch.worker.slots import Slots
from tests.metadata_service import metadata_service


class FakeSqs:
    """Notes which visibility was set for what; refuses receipt handles in `lapsed`."""

    def __init__(self, lapsed: set[str] | None = None, sender_fault: bool = True) -> None:
        self.lapsed = lapsed or set()
        self.sender_fault = sender_fault
        self.set: list[tuple[str, int]] = []

    def change_message_visibility_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert len(Entries) <= 10
        self.set += [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in Entries]
        failed = [entry for entry in Entries if entry["ReceiptHandle"] in self.lapsed]
        return {"Failed": [{"Id": entry["Id"], "SenderFault": self.sender_fault} for entry in failed]}


class Keeping:
    """A keeper in a thread, and the worker's end of its channel."""

    def __init__(self, sqs: FakeSqs, visibility_timeout: float) -> None:
        ours, self.channel = socket.socketpair()
        self.holder = LeaseHolder(self.channel)
        keeper = LeaseKeeper(ours, sqs, "url", visibility_timeout)
        self._thread = threading.Thread(target=keeper.keep)
        self._thread.start()

    def end(self) -> None:
        self.channel.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


def wait_until(condition: Any, seconds: float = 5) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def test_a_lease_is_renewed_three_times_in_its_time_until_it_is_released() -> None:
    sqs = FakeSqs()
    keeping = Keeping(sqs, visibility_timeout=0.15)
    keeping.holder.hold([f"h{n}" for n in range(12)])
    wait_until(lambda: sqs.set.count(("h11", 0)) >= 3)
    keeping.holder.release([f"h{n}" for n in range(11)])
    wait_until(lambda: sqs.set[-2:] == [("h11", 0)] * 2)
    keeping.end()


def test_what_a_dead_worker_held_is_given_back_at_once() -> None:
    sqs = FakeSqs()
    keeping = Keeping(sqs, visibility_timeout=600)
    keeping.holder.hold(["kept", "done"])
    keeping.holder.release(["done"])
    keeping.end()
    assert sqs.set == [("kept", 0)]


def test_a_lease_that_lapsed_is_not_renewed_again() -> None:
    sqs = FakeSqs(lapsed={"gone"})
    keeping = Keeping(sqs, visibility_timeout=0.06)
    keeping.holder.hold(["gone", "here"])
    wait_until(lambda: sqs.set.count(("here", 0)) >= 4)
    keeping.end()
    assert [handle for handle, _ in sqs.set].count("gone") == 1


def test_a_renewal_that_sqs_itself_failed_is_tried_again() -> None:
    sqs = FakeSqs(lapsed={"unlucky"}, sender_fault=False)
    keeping = Keeping(sqs, visibility_timeout=0.06)
    keeping.holder.hold(["unlucky"])
    wait_until(lambda: sqs.set.count(("unlucky", 0)) >= 3)
    keeping.end()


def test_who_wants_to_be_alone_waits_for_the_others_and_goes_before_the_next() -> None:
    order: list[str] = []

    async def use(slots: Slots, name: str, alone: bool, seconds: float) -> None:
        async with slots.place(alone):
            order.append(f"+{name}")
            await asyncio.sleep(seconds)
            order.append(f"-{name}")

    async def scene() -> None:
        slots = Slots(2)
        tasks = [asyncio.create_task(use(slots, "a", False, 0.05)), asyncio.create_task(use(slots, "b", False, 0.02))]
        await asyncio.sleep(0.01)
        tasks.append(asyncio.create_task(use(slots, "solo", True, 0.02)))
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(use(slots, "c", False, 0)))
        await asyncio.gather(*tasks)

    asyncio.run(scene())
    assert order == ["+a", "+b", "-b", "-a", "+solo", "-solo", "+c", "-c"]


def test_giving_up_on_being_alone_lets_the_others_in() -> None:
    async def scene() -> bool:
        slots = Slots(1)
        async with slots.place(False):
            waiting = asyncio.create_task(slots.place(True).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(1), slots.place(False):
            return True

    assert asyncio.run(scene())


class Clock:
    """One that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestPace:
    def test_without_an_answer_nothing_is_known(self) -> None:
        clock = Clock()
        pace = Pace(clock=clock)
        pace.began("refused")
        clock.now = 1
        pace.ended("refused")
        assert pace.measure is None

    def test_time_without_work_does_not_count(self) -> None:
        clock = Clock()
        pace = Pace(clock=clock)
        for began, ended in ((0, 2), (100, 104)):
            clock.now = began
            pace.began(began)
            clock.now = ended
            pace.ended(began, weight=1)
        assert pace.measure == Measure(seconds_per_unit=3, in_flight=1)

    def test_a_worker_that_has_just_begun_with_a_full_batch_is_not_slow(self) -> None:
        """256 jobs that take 17 s together: the first answers come after 17 s, and each took 17/256 of the worker."""
        clock = Clock()
        pace = Pace(clock=clock)
        for job in range(256):
            pace.began(job)
        clock.now = 17
        for job in range(64):
            pace.ended(job, weight=1)
        measure = pace.measure
        assert measure is not None
        assert measure.in_flight == pytest.approx(256)
        assert measure.seconds_per_unit == pytest.approx(17 / 256)

    def test_jobs_count_by_their_weight(self) -> None:
        clock = Clock()
        pace = Pace(clock=clock)
        for job, weight in enumerate((1, 9)):
            pace.began(job)
            clock.now += weight * 2
            pace.ended(job, weight=weight)
        assert pace.measure == Measure(seconds_per_unit=2, in_flight=1)

    def test_refusals_that_take_no_time_do_not_make_it_faster(self) -> None:
        clock = Clock()
        pace = Pace(clock=clock)
        pace.began("answered")
        for job in range(50):
            pace.began(job)
            pace.ended(job)
        clock.now = 3
        pace.ended("answered", weight=1)
        assert pace.measure == Measure(seconds_per_unit=3, in_flight=1)


@example(startup=["ü" * 30_000], own=["何" * 30_000])
@given(startup=st.lists(st.text(max_size=30_000), max_size=4), own=st.lists(st.text(max_size=30_000), max_size=4))
def test_job_logs_stay_within_their_limit(startup: list[str], own: list[str]) -> None:
    text = job_logs(startup, own, {"generate": 1.25})
    assert len(text.encode()) <= JOB_LOGS_LIMIT
    assert text.endswith("generate: 1.250 s")


def test_a_message_of_newer_code_is_told_from_a_broken_one() -> None:
    with pytest.raises(NewerSchema):
        read({"Body": json.dumps({"schemaVersion": 5, "taskToken": "t", "job": {"new": "shape"}})})
    with pytest.raises(Unreadable) as raised:
        read({"Body": json.dumps({"schemaVersion": 1, "taskToken": "t", "job": {"new": "shape"}})})
    assert raised.value.task_token == "t"
    assert raised.value.error.code == "Internal"
    with pytest.raises(Unreadable) as raised:
        read({"Body": "hello"})
    assert raised.value.task_token is None


def test_the_spot_notice_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spot, "PERIOD_SECONDS", 0.01)
    heard = threading.Event()
    with metadata_service() as service:
        for name, value in service.variables.items():
            monkeypatch.setenv(name, value)
        spot.watch(heard.set)
        assert not heard.wait(0.1)
        service.notice = True
        assert heard.wait(60)


def test_no_metadata_service_is_no_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:9")
    assert not spot.noticed()
