"""Receive messages from moto's queues, and add them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moto.sqs.models import Message, Queue


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
            append(queue.dead_letter_queue, message)
        else:
            message.mark_received(visibility_timeout=visibility_timeout)
            taken.append(message)
    return taken


def seconds_until_change(queue: Queue) -> float | None:
    """Return the seconds until a hidden or delayed message can be received, or None. The caller holds the lock."""
    now = time.time() * 1000
    moments = [max(message.visible_at, message.delayed_until) for message in queue._messages]
    later = [moment for moment in moments if moment > now]
    # moto compares whole milliseconds, and strictly.
    return (min(later) - now) / 1000 + 0.002 if later else None


def append(queue: Queue, message: Message) -> None:
    """Add a message to a queue, and wake whoever waits for one."""
    with queue._messages_lock:
        queue._messages.append(message)
        queue._messages_lock.notify_all()


def _groups_in_flight(queue: Queue) -> set[str | None]:
    return {message.group_id for message in queue._messages if not message.visible} if queue.fifo_queue else set()


def _expired(queue: Queue, message: Message) -> bool:
    return time.time() * 1000 - message.sent_timestamp > queue.message_retention_period * 1000


def _received_too_often(queue: Queue, message: Message) -> bool:
    limit = queue.redrive_policy["maxReceiveCount"] if queue.dead_letter_queue and queue.redrive_policy else None
    return limit is not None and message.approximate_receive_count >= limit
