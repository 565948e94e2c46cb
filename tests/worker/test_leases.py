"""Leases are renewed until they are released, and end with the worker that held them."""

import socket
import threading
import time
from typing import Any

from cosmos_batch.worker.leases import LeaseHolder, LeaseKeeper
from tests.worker.engines import PATIENCE


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


def wait_until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
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


def test_messages_of_an_ended_worker_are_visible_at_once() -> None:
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


def test_a_renewal_that_failed_by_a_fault_of_sqs_is_repeated() -> None:
    sqs = FakeSqs(lapsed={"unlucky"}, sender_fault=False)
    keeping = Keeping(sqs, visibility_timeout=0.06)
    keeping.holder.hold(["unlucky"])
    wait_until(lambda: sqs.set.count(("unlucky", 0)) >= 3)
    keeping.end()
