"""Leases are renewed until they are released, and end with the worker that held them."""

import contextlib
import itertools
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any, Self

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import ResponseParserError

from cosmos_batch.worker import leases, supervisor
from cosmos_batch.worker.leases import LeaseHolder, LeaseKeeper, renewal_period
from tests.worker.conftest import WorkerFixture
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

    def __init__(self, sqs: FakeSqs, visibility_timeout: int) -> None:
        ours, self.channel = socket.socketpair()
        self.holder = LeaseHolder(self.channel)
        keeper = LeaseKeeper(ours, sqs, "url", visibility_timeout)
        self._thread = threading.Thread(target=keeper.keep)
        self._thread.start()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        self.channel.close()
        self._thread.join(60)
        assert not self.is_alive()


def wait_until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def test_a_lease_is_renewed_again_and_again_until_it_is_released() -> None:
    sqs = FakeSqs()
    keeping = Keeping(sqs, visibility_timeout=1)
    keeping.holder.hold([f"h{n}" for n in range(12)])
    wait_until(lambda: sqs.set.count(("h11", 1)) >= 3)
    keeping.holder.release([f"h{n}" for n in range(11)])
    wait_until(lambda: sqs.set[-2:] == [("h11", 1)] * 2)
    keeping.end()


def test_messages_of_an_ended_worker_are_visible_at_once() -> None:
    sqs = FakeSqs()
    keeping = Keeping(sqs, visibility_timeout=600)
    keeping.holder.hold(["kept", "done"])
    keeping.holder.release(["done"])
    keeping.end()
    assert sqs.set == [("kept", 0)]


def test_messages_of_an_ended_worker_are_given_back_once_in_two_tries() -> None:
    """A second try for a message that is visible could take it from the worker that has received it since."""

    class Unlucky(FakeSqs):
        def change_message_visibility_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
            failed = super().change_message_visibility_batch(QueueUrl, Entries)
            self.lapsed.clear()
            return failed

    sqs = Unlucky(lapsed={"unlucky"}, sender_fault=False)
    keeping = Keeping(sqs, visibility_timeout=600)
    keeping.holder.hold(["lucky", "unlucky"])
    keeping.end()
    assert sqs.set == [("lucky", 0), ("unlucky", 0), ("unlucky", 0)]


def test_a_lease_that_lapsed_is_not_renewed_again() -> None:
    sqs = FakeSqs(lapsed={"gone"})
    keeping = Keeping(sqs, visibility_timeout=1)
    keeping.holder.hold(["gone", "here"])
    wait_until(lambda: sqs.set.count(("here", 1)) >= 4)
    keeping.end()
    assert [handle for handle, _ in sqs.set].count("gone") == 1


def test_a_renewal_that_failed_by_a_fault_of_sqs_is_repeated() -> None:
    sqs = FakeSqs(lapsed={"unlucky"}, sender_fault=False)
    keeping = Keeping(sqs, visibility_timeout=1)
    keeping.holder.hold(["unlucky"])
    wait_until(lambda: sqs.set.count(("unlucky", 1)) >= 3)
    keeping.end()


def test_an_answer_that_cannot_be_parsed_does_not_end_the_renewals() -> None:
    """It comes from a proxy, for example. A keeper that ended would end the container with all of its jobs."""

    class BehindAProxy(FakeSqs):
        refusals = 2

        def change_message_visibility_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
            if self.refusals:
                self.refusals -= 1
                raise ResponseParserError("<html>")
            return super().change_message_visibility_batch(QueueUrl, Entries)

    sqs = BehindAProxy()
    keeping = Keeping(sqs, visibility_timeout=1)
    keeping.holder.hold(["h"])
    wait_until(lambda: sqs.set or not keeping.is_alive())
    assert keeping.is_alive()
    keeping.end()


def test_all_leases_are_renewed_at_once() -> None:
    """A call without an answer must not take the time in which the other messages are renewed."""

    class Together(FakeSqs):
        both = threading.Barrier(2)

        def change_message_visibility_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
            self.both.wait(PATIENCE)
            return super().change_message_visibility_batch(QueueUrl, Entries)

    sqs = Together()
    keeping = Keeping(sqs, visibility_timeout=4)
    keeping.holder.hold([f"h{n}" for n in range(12)])
    wait_until(lambda: {handle for handle, _ in sqs.set} == {f"h{n}" for n in range(12)})
    keeping.end()


def test_a_lease_survives_two_renewals_that_take_as_long_as_they_may_and_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    visibility_timeout = 120
    clock = SimpleNamespace(now=0.0)
    renewals: list[tuple[float, float]] = []

    class Slow(FakeSqs):
        calls = 0

        def change_message_visibility_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
            self.calls += 1
            began = clock.now
            clock.now += 0.99 * renewal_period(visibility_timeout)
            if self.calls % 3:
                raise ReadTimeoutError(endpoint_url="https://sqs")
            renewals.append((began, clock.now))
            return super().change_message_visibility_batch(QueueUrl, Entries)

    class Listening(LeaseKeeper):
        def _listen(self, seconds: float) -> bool:
            clock.now += seconds
            return len(renewals) < 5

    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: clock.now))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        keeper = Listening(ours, Slow(), "url", visibility_timeout)
        keeper._apply({"hold": ["h"]})
        keeper.keep()
    gaps = [ended - began for (began, _), (_, ended) in itertools.pairwise(renewals)]
    assert max(gaps) < visibility_timeout


def test_the_next_renewal_comes_though_sqs_never_answers_one(
    bench: WorkerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the timeouts of botocore, two minutes are not enough for three connections."""
    environment = bench.environment("worker-1", visibility_timeout_seconds=3)
    ours, theirs = socket.socketpair()
    with ours, theirs, BlackHole() as hole:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", f"http://127.0.0.1:{hole.port}")
        LeaseHolder(theirs).hold(["h"])
        keeping = threading.Thread(target=supervisor._keep_leases, args=(ours, environment))
        keeping.start()
        wait_until(lambda: len(hole.connections) >= 6)
        theirs.close()
        keeping.join(PATIENCE)
        assert not keeping.is_alive()


class BlackHole:
    """A server that accepts connections and never answers."""

    def __init__(self) -> None:
        self.connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while True:
                self.connections.append(self._listener.accept()[0])
