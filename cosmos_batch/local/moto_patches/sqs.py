"""SQS.

AWS: a queue is safe under any number of callers; a FIFO queue remembers a deduplication id for five minutes, also after
the message was deleted; a message group is blocked while one of its messages is in flight; a message that was received
``maxReceiveCount`` times moves to the dead-letter queue; a send wakes an event source mapping.

moto: deleting replaces the list of messages without a lock, so a send at the same moment is lost; it forgets a
deduplication id with its message; it looks for a delayed message once a second; it invokes a mapped function inside the
send, one message at a time, and never when the message is delayed.

Mend: adding, taking and deleting under the queue's own lock, with an exact wait for the next message to appear. Mapped
functions are left to ``event_sources``.
"""

from __future__ import annotations

import copy
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

from moto.sqs import models
from moto.sqs.models import Message, Queue, SQSBackend

DEDUPLICATION_MILLISECONDS = 5 * 60 * 1000
_sequence = itertools.count(int(time.time() * 1000) << 20)


def apply() -> None:
    """Install the mend."""
    Queue.add_message = _add_message
    Queue.delete_message = _locked(Queue.delete_message)
    SQSBackend.receive_message = _receive_message
    SQSBackend.change_message_visibility = _locked_by_name(SQSBackend.change_message_visibility)
    # moto asks the calendar for each message, several times for each send.
    Message.visible = property(lambda self: time.time() * 1000 > self.visible_at)
    Message.delayed = property(lambda self: time.time() * 1000 < self.delayed_until)
    SQSBackend.purge_queue = _locked_by_name(SQSBackend.purge_queue)


def take(queue: Queue, count: int, visibility_timeout: int) -> list[Message]:
    """Receive up to ``count`` messages that are visible now. The caller holds the queue's lock.

    ``visibility_timeout`` is in seconds. Messages that were received too often go to the dead-letter queue instead.
    """
    taken: list[Message] = []
    blocked = _groups_in_flight(queue)
    for message in list(queue._messages):
        if len(taken) == count:
            break
        if not message.visible or message.delayed or (queue.fifo_queue and message.group_id in blocked):
            continue
        if _expired(queue, message):
            queue._messages.remove(message)
        elif _received_too_often(queue, message):
            queue._messages.remove(message)
            _append(queue.dead_letter_queue, message)
        else:
            message.mark_received(visibility_timeout=visibility_timeout)
            taken.append(message)
    return taken


def seconds_until_change(queue: Queue) -> float | None:
    """Return the seconds until a hidden or delayed message appears, or None if there is none."""
    now = time.time() * 1000
    moments = [max(message.visible_at, message.delayed_until) for message in queue._messages]
    later = [moment for moment in moments if moment > now]
    # moto compares whole milliseconds, and strictly.
    return (min(later) - now) / 1000 + 0.002 if later else None


def _add_message(self: Queue, message: Message) -> None:
    with self._messages_lock:
        if self.fifo_queue:
            first = _same_within_five_minutes(self, message)
            if first:
                message.id = first
                return
            message.sequence_number = f"{next(_sequence):020d}"
        _append(self, message)


def _append(queue: Queue, message: Message) -> None:
    with queue._messages_lock:
        queue._messages.append(message)
        queue._messages_lock.notify_all()


def _same_within_five_minutes(queue: Queue, message: Message) -> str | None:
    """Return the id of the first message with this deduplication id, or remember this one."""
    sent: dict[str, tuple[int, str]] = queue.__dict__.setdefault("deduplication_ids", {})
    known = sent.get(message.deduplication_id)
    if known and message.sent_timestamp - known[0] < DEDUPLICATION_MILLISECONDS:
        return known[1]
    sent[message.deduplication_id] = (message.sent_timestamp, message.id)
    return None


def _groups_in_flight(queue: Queue) -> set[str | None]:
    return {message.group_id for message in queue._messages if not message.visible} if queue.fifo_queue else set()


def _expired(queue: Queue, message: Message) -> bool:
    return time.time() * 1000 - message.sent_timestamp > queue.message_retention_period * 1000


def _received_too_often(queue: Queue, message: Message) -> bool:
    limit = queue.redrive_policy["maxReceiveCount"] if queue.dead_letter_queue and queue.redrive_policy else None
    return limit is not None and message.approximate_receive_count >= limit


def _receive_message(
    self: SQSBackend,
    queue_name: str,
    count: int,
    wait_seconds_timeout: int,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[Message]:
    queue = self.get_queue(queue_name)
    deadline = time.monotonic() + wait_seconds_timeout
    with queue._messages_lock:
        while not (taken := take(queue, int(count), int(visibility_timeout))):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            change = seconds_until_change(queue)
            queue._messages_lock.wait(left if change is None else min(left, change))
        answers = [copy.copy(message) for message in taken]
    for answer in answers:
        models._filter_message_attributes(answer, message_attribute_names or [])
    return answers


def _locked(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def under_lock(self: Queue, *args: Any, **kwargs: Any) -> Any:
        with self._messages_lock:
            result = method(self, *args, **kwargs)
            self._messages_lock.notify_all()
            return result

    return under_lock


def _locked_by_name(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def under_lock(self: SQSBackend, queue_name: str, *args: Any, **kwargs: Any) -> Any:
        queue = self.get_queue(queue_name)
        with queue._messages_lock:
            result = method(self, queue_name, *args, **kwargs)
            queue._messages_lock.notify_all()
            return result

    return under_lock
