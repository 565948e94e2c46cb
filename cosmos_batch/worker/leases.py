"""Leases: the invisibility of messages in flight. The worker says what it holds; the supervisor renews it.

The two speak over a socket, one JSON object a line: `{"hold": [receipt handle, ...]}` and `{"release": [...]}`.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

BATCH = 10  # of SQS
RENEWALS_PER_TIMEOUT = 3  # two may fail

log = logging.getLogger(__name__)


class LeaseHolder:
    """The worker's side."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()

    def hold(self, receipt_handles: list[str]) -> None:
        """Renew these from now on."""
        self._say("hold", receipt_handles)

    def release(self, receipt_handles: list[str]) -> None:
        """Renew these no more: they were deleted or given back."""
        self._say("release", receipt_handles)

    def _say(self, verb: str, receipt_handles: list[str]) -> None:
        with self._lock:
            self._channel.sendall(json.dumps({verb: receipt_handles}).encode() + b"\n")


class LeaseKeeper:
    """The supervisor's side: it has nothing else to do, so it is never late."""

    def __init__(self, channel: socket.socket, sqs: Any, queue_url: str, visibility_timeout: float) -> None:
        self._channel = channel
        self._sqs = sqs
        self._queue_url = queue_url
        self._visibility_timeout = visibility_timeout
        self._held: dict[str, None] = {}
        self._unread = b""

    def keep(self) -> None:
        """Renew until the worker is gone; then give back at once what it still held."""
        renew_at = time.monotonic() + self._period
        while self._listen(max(0.0, renew_at - time.monotonic())):
            if time.monotonic() >= renew_at:
                self._set_visibility(int(self._visibility_timeout))
                renew_at = time.monotonic() + self._period
        self._set_visibility(0)

    @property
    def _period(self) -> float:
        return self._visibility_timeout / RENEWALS_PER_TIMEOUT

    def _listen(self, seconds: float) -> bool:
        """Wait so long for the worker's next words. False when its end of the socket is closed."""
        self._channel.settimeout(max(seconds, 0.001))
        try:
            heard = self._channel.recv(1 << 16)
        except TimeoutError:
            return True
        except OSError:
            return False
        *lines, self._unread = (self._unread + heard).split(b"\n")
        for line in lines:
            self._note(json.loads(line))
        return bool(heard)

    def _note(self, words: dict[str, list[str]]) -> None:
        self._held |= dict.fromkeys(words.get("hold", ()))
        for handle in words.get("release", ()):
            self._held.pop(handle, None)

    def _set_visibility(self, seconds: int) -> None:
        for batch in batches(list(self._held)):
            entries = [
                {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for index, handle in enumerate(batch)
            ]
            try:
                answer = self._sqs.change_message_visibility_batch(QueueUrl=self._queue_url, Entries=entries)
            except (BotoCoreError, ClientError):
                # Two renewals may be lost; a lease that lapses costs one more run, never a second result.
                log.exception("could not set the visibility of %d messages to %d s", len(batch), seconds)
                continue
            for failed in (one for one in answer.get("Failed", ()) if one["SenderFault"]):
                # Not in flight any more; a fault of SQS's own is tried again with the next renewal.
                self._held.pop(batch[int(failed["Id"])], None)


def batches(items: list[str], size: int = BATCH) -> Iterator[list[str]]:
    """`items` in runs of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
