"""SQS: queues that are safe under many callers, deduplication, exact waits, and all properties of a template."""
# ruff: noqa: ARG001 -- the signatures are moto's.

from __future__ import annotations

import copy
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

from moto.sqs import models
from moto.sqs.models import Message, Queue, SQSBackend

from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import Properties, fix_properties, is_true

DEDUPLICATION_MILLISECONDS = 5 * 60 * 1000

_GUIDE = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/"
_QUEUE_PAGE = f"{RESOURCE_PAGES}aws-resource-sqs-queue.html"
_sequence = itertools.count(int(time.time() * 1000) << 20)


@patch(
    "sqs.deduplication-ids-outlive-messages",
    brings="A FIFO queue remembers a deduplication id for five minutes, also after the message was deleted.",
    moto="Forgets the id with its message, and invokes a mapped function inside SendMessage.",
    source=f"{_GUIDE}using-messagededuplicationid-property.html",
)
def _remember_deduplication_ids() -> None:
    replace(Queue, "add_message", _add_message)


@patch(
    "sqs.deletions-lose-no-messages",
    brings="Messages that are sent while others are deleted, hidden or purged are kept.",
    moto="Replaces the list of messages without a lock, so a message that is sent at the same moment is lost.",
    source=f"{_GUIDE}standard-queues-at-least-once-delivery.html",
)
def _lock_changes() -> None:
    replace(Queue, "delete_message", _locked(Queue.delete_message))
    replace(SQSBackend, "change_message_visibility", _locked_by_name(SQSBackend.change_message_visibility))
    replace(SQSBackend, "purge_queue", _locked_by_name(SQSBackend.purge_queue))


@patch(
    "sqs.long-polls-end-with-the-message",
    brings="A receive that waits gets a message as soon as it is sent, its delay is over, or it is visible again.",
    moto="Looks for a delayed message, and for one that is visible again, once a second.",
    source=f"{_GUIDE}sqs-short-and-long-polling.html",
)
def _wait_for_messages() -> None:
    replace(SQSBackend, "receive_message", _receive_message)


@patch(
    "sqs.visibility-is-a-comparison",
    brings="Speed: whether a message is visible or delayed is a comparison of two numbers.",
    moto="Converts the calendar's time for each message, several times for each send.",
    source="https://github.com/getmoto/moto/blob/master/moto/sqs/models.py",
)
def _compare_times() -> None:
    replace(Message, "visible", property(lambda self: time.time() * 1000 > self.visible_at))
    replace(Message, "delayed", property(lambda self: time.time() * 1000 < self.delayed_until))


@patch(
    "sqs.generated-fifo-names",
    brings="The name that CloudFormation generates for a FIFO queue ends in .fifo.",
    moto="Refuses the name that it generated.",
    source=_QUEUE_PAGE,
)
def _name_fifo_queues() -> None:
    fix_properties(Queue, _fifo_name)


def _fifo_name(name: str, properties: Properties) -> str:
    return f"{name[:75]}.fifo" if is_true(properties.get("FifoQueue", False)) and not name.endswith(".fifo") else name


@patch(
    "sqs.updates-change-all-attributes",
    brings="A stack update changes every attribute of a queue but its name and kind, in place.",
    moto="Changes two of the attributes.",
    source=_QUEUE_PAGE,
)
def _update_all_attributes() -> None:
    replace(Queue, "update_from_cloudformation_json", classmethod(_update_queue))


def _update_queue(
    cls: Any, /, original_resource: Queue, new_resource_name: str, cloudformation_json: Any, **_: Any
) -> Queue:
    fixed = {"QueueName", "FifoQueue", "Tags"}
    attributes = {name: value for name, value in cloudformation_json["Properties"].items() if name not in fixed}
    original_resource._set_attributes(attributes)
    with original_resource._messages_lock:
        original_resource._messages_lock.notify_all()
    return original_resource


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
    """Return the seconds until a hidden or delayed message can be received, or None if there is none."""
    now = time.time() * 1000
    moments = [max(message.visible_at, message.delayed_until) for message in queue._messages]
    later = [moment for moment in moments if moment > now]
    # moto compares whole milliseconds, and strictly.
    return (min(later) - now) / 1000 + 0.002 if later else None


def _add_message(self: Queue, message: Message) -> None:
    with self._messages_lock:
        if self.fifo_queue:
            first = _first_with_same_id(self, message)
            if first:
                message.id = first
                return
            message.sequence_number = f"{next(_sequence):020d}"
        _append(self, message)


def _append(queue: Queue, message: Message) -> None:
    with queue._messages_lock:
        queue._messages.append(message)
        queue._messages_lock.notify_all()


def _first_with_same_id(queue: Queue, message: Message) -> str | None:
    """Return the message id of the first message with this deduplication id, or None and remember this message."""
    sent: dict[str, tuple[int, str]] = queue.__dict__.setdefault("deduplication_ids", {})
    first = sent.get(message.deduplication_id)
    if first and message.sent_timestamp - first[0] < DEDUPLICATION_MILLISECONDS:
        return first[1]
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
