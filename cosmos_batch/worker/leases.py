"""Leases: a message in flight is invisible to other workers until its visibility timeout, which must be renewed.

The inner process says which messages it holds, and the supervisor renews their visibility timeouts (decision 004). They
talk over a socket, one JSON object a line: `{"hold": [receipt handle, ...]}` and `{"release": [...]}`.
"""

import itertools
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cosmos_batch.store.s3_retries import FAULTS

BATCH = 10  # most messages in one call of SQS
RENEWALS_PER_TIMEOUT = 4  # two renewals in a row may fail; the third still has the time until the fourth

log = logging.getLogger(__name__)


class LeaseHolder:
    """The inner process's end of the socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def hold(self, receipt_handles: list[str]) -> None:
        """Have the supervisor renew these leases from now on."""
        self._send("hold", receipt_handles)

    def release(self, receipt_handles: list[str]) -> None:
        """Have the supervisor stop renewing these leases: the messages were deleted or given back."""
        self._send("release", receipt_handles)

    def _send(self, verb: str, receipt_handles: list[str]) -> None:
        with self._lock:
            self._channel.sendall(json.dumps({verb: receipt_handles}).encode() + b"\n")


class LeaseKeeper:
    """The supervisor's end of the socket. Nothing else runs in that process that could delay a renewal.

    A call of `sqs` must end within `renewal_period`, also if it gets no answer.
    """

    def __init__(self, channel: socket.socket, sqs: Any, queue_url: str, visibility_timeout: int) -> None:
        self._channel = channel
        self._sqs = sqs
        self._queue_url = queue_url
        self._visibility_timeout = visibility_timeout
        self._held: dict[str, None] = {}
        self._unread = b""

    def keep(self) -> None:
        """Renew leases until the inner process has ended, then make the messages it still held visible at once."""
        period = renewal_period(self._visibility_timeout)
        renew_at = time.monotonic() + period
        while self._listen(max(0.0, renew_at - time.monotonic())):
            if time.monotonic() >= renew_at:
                renew_at = time.monotonic() + period  # from the beginning of this one, however long it takes
                self._set_visibility(self._visibility_timeout)
        for _ in range(2):  # no renewal follows that would be the second try
            self._set_visibility(0)

    def _listen(self, seconds: float) -> bool:
        """Wait up to `seconds` for data on the socket and apply it. Returns False once the other end is closed."""
        self._channel.settimeout(max(seconds, 0.001))
        try:
            received = self._channel.recv(1 << 16)
        except TimeoutError:
            return True
        except OSError:
            return False
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._apply(json.loads(line))
        return bool(received)

    def _apply(self, command: dict[str, list[str]]) -> None:
        self._held |= dict.fromkeys(command.get("hold", ()))
        for handle in command.get("release", ()):
            self._held.pop(handle, None)

    def _set_visibility(self, seconds: int) -> None:
        """Set it for all messages at once, so that a call without an answer takes no time from the next ones."""
        held = list(batches(list(self._held)))
        if not held:
            return
        with ThreadPoolExecutor(len(held)) as calls:
            for ended in calls.map(self._set_visibility_of, held, itertools.repeat(seconds)):
                for handle in ended:
                    self._held.pop(handle, None)

    def _set_visibility_of(self, batch: list[str], seconds: int) -> list[str]:
        """Set it for some messages, and return those that are not in flight any more, now or since before."""
        entries = [
            {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for index, handle in enumerate(batch)
        ]
        try:
            response = self._sqs.change_message_visibility_batch(QueueUrl=self._queue_url, Entries=entries)
        except FAULTS:
            # Two renewals in a row may fail. If a lease lapses, the job runs again; it never has a second result.
            log.exception("could not set the visibility of %d messages to %d s", len(batch), seconds)
            return []
        # `SenderFault`: it was not in flight any more. A fault of SQS itself is tried again with the next renewal.
        failed = {int(entry["Id"]): entry["SenderFault"] for entry in response.get("Failed", ())}
        return [handle for index, handle in enumerate(batch) if failed.get(index, seconds == 0)]


def renewal_period(visibility_timeout: int) -> float:
    """Return the seconds between the beginnings of two renewals."""
    return visibility_timeout / RENEWALS_PER_TIMEOUT


def batches(items: list[str], size: int = BATCH) -> Iterator[list[str]]:
    """Yield `items` in lists of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
