"""Patches of moto's SQS: queues serve many callers at once, deduplicate, wait exactly, and read all of a template."""
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

from cosmos_batch.local.cloudformation.simulated_type import Properties
from cosmos_batch.local.moto_patches.registry import RESOURCE_PAGES, patch, replace
from cosmos_batch.local.moto_patches.resources import fix_properties, is_true
from cosmos_batch.local.sqs import receiving

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
    replace(SQSBackend, "receive_message", receive_message)


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


def _add_message(self: Queue, message: Message) -> None:
    with self._messages_lock:
        if self.fifo_queue:
            first = _first_with_same_id(self, message)
            if first:
                message.id = first
                return
            message.sequence_number = f"{next(_sequence):020d}"
        receiving.append(self, message)


def _first_with_same_id(queue: Queue, message: Message) -> str | None:
    """Return the message id of the first message with this deduplication id, or None and remember this message."""
    sent: dict[str, tuple[int, str]] = queue.__dict__.setdefault("deduplication_ids", {})
    first = sent.get(message.deduplication_id)
    if first and message.sent_timestamp - first[0] < DEDUPLICATION_MILLISECONDS:
        return first[1]
    sent[message.deduplication_id] = (message.sent_timestamp, message.id)
    return None


def receive_message(
    self: SQSBackend,
    queue_name: str,
    count: int,
    wait_seconds_timeout: float,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[Message]:
    """Receive messages. If there are none, wait for the first of them for so many seconds."""
    queue = self.get_queue(queue_name)
    deadline = time.monotonic() + wait_seconds_timeout
    with queue._messages_lock:
        while not (taken := receiving.take(queue, int(count), int(visibility_timeout))):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            change = receiving.seconds_until_change(queue)
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
