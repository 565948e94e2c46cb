"""Event source mappings from SQS to Lambda: a poller for each mapping.

``MaximumBatchingWindowInSeconds`` is ignored: a batch has the messages that are visible at the moment.
``FilterCriteria`` is ignored too.
"""

from __future__ import annotations

import base64
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from cosmos_batch.local import backends
from cosmos_batch.local.runtime import REGION
from cosmos_batch.local.sqs import receiving

DEFAULT_CONCURRENCY = 4
_LOG = logging.getLogger(__name__)


class Poller:
    """Receives batches from the queue of a mapping and invokes its function, until it is stopped."""

    def __init__(self, mapping: Any) -> None:
        self._mapping = mapping
        self._queue = backends.queues().get_queue(mapping.event_source_arn.rsplit(":", 1)[-1])
        self._running = 0
        self._stopped = False
        self._threads = ThreadPoolExecutor(DEFAULT_CONCURRENCY, thread_name_prefix=f"esm-{self._queue.name}")
        threading.Thread(target=self._poll, daemon=True, name=f"poller-{self._queue.name}").start()

    def stop(self) -> None:
        """Receive no further batch."""
        with self._queue._messages_lock:
            self._stopped = True
            self._queue._messages_lock.notify_all()

    def _poll(self) -> None:
        while not self._stopped:
            with self._queue._messages_lock:
                batch = self._take()
                if not batch:
                    # Sends, deletions and ends of batches notify the lock. The timers of messages do not, so they limit
                    # the wait.
                    self._queue._messages_lock.wait(receiving.seconds_until_change(self._queue))
                    continue
                self._running += 1
            self._threads.submit(self._process, batch)

    def _take(self) -> list[dict[str, Any]]:
        if self._stopped or not self._mapping.enabled or self._running >= self._concurrency():
            return []
        messages = receiving.take(self._queue, self._mapping.batch_size, self._queue.visibility_timeout)
        return [record_of(message, self._queue.queue_arn) for message in messages]

    def _concurrency(self) -> int:
        configured = (self._mapping.scaling_config or {}).get("MaximumConcurrency", DEFAULT_CONCURRENCY)
        return min(int(configured), DEFAULT_CONCURRENCY)

    def _process(self, batch: list[dict[str, Any]]) -> None:
        try:
            failed = self._failed_messages(batch)
            for record in batch:
                if record["messageId"] not in failed:
                    self._queue.delete_message(record["receiptHandle"])
        except Exception:
            _LOG.exception("A batch of %s failed; its messages stay until their visibility timeout", self._queue.name)
        finally:
            with self._queue._messages_lock:
                self._running -= 1
                self._queue._messages_lock.notify_all()

    def _failed_messages(self, batch: list[dict[str, Any]]) -> set[str]:
        """Invoke the function; return the ids of the failed messages, which stay until their visibility timeout."""
        headers: dict[str, str] = {}
        payload = backends.functions().invoke(
            self._mapping.function_arn, None, json.dumps({"Records": batch}), {}, headers
        )
        everything = {record["messageId"] for record in batch}
        if "x-amz-function-error" in headers:
            return everything
        if "ReportBatchItemFailures" not in (self._mapping.function_response_types or []):
            return set()
        return reported_failures(json.loads(payload), everything)


def reported_failures(answer: Any, message_ids: set[str]) -> set[str]:
    """Return the failed ids of a partial batch response; one that cannot be read fails the whole batch, as on AWS."""
    if not answer:
        return set()
    try:
        reported = {failure["itemIdentifier"] for failure in answer.get("batchItemFailures") or []}
    except (AttributeError, KeyError, TypeError):
        return message_ids
    return reported if reported <= message_ids else message_ids


def record_of(message: Any, queue_arn: str) -> dict[str, Any]:
    """Return the record of a message in the event of a function."""
    attributes = {
        "ApproximateReceiveCount": str(message.approximate_receive_count),
        "SentTimestamp": str(message.sent_timestamp),
        "SenderId": message.sender_id,
        "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
        "SequenceNumber": message.sequence_number,
        "MessageGroupId": message.group_id,
        "MessageDeduplicationId": message.deduplication_id,
    }
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {name: value for name, value in attributes.items() if value is not None},
        "messageAttributes": {name: _attribute(value) for name, value in message.message_attributes.items()},
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _attribute(value: dict[str, Any]) -> dict[str, Any]:
    record = {"stringListValues": [], "binaryListValues": [], "dataType": value["DataType"]}
    if "StringValue" in value:
        record["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        binary = value["BinaryValue"]
        record["binaryValue"] = binary if isinstance(binary, str) else base64.b64encode(binary).decode()
    return record


class Pollers:
    """The pollers of every mapping, by the mapping's id."""

    def __init__(self) -> None:
        self._pollers: dict[str, Poller] = {}

    def start(self, mapping: Any) -> None:
        """Start the poller of a mapping whose source is a queue."""
        if ":sqs:" in mapping.event_source_arn:
            self._pollers[mapping.uuid] = Poller(mapping)

    def stop(self, mapping_id: str) -> None:
        """Stop the poller of a mapping."""
        poller = self._pollers.pop(mapping_id, None)
        if poller:
            poller.stop()

    def wake(self, mapping_id: str) -> None:
        """Wake the poller of an event source mapping, so that it reads the changed mapping."""
        poller = self._pollers.get(mapping_id)
        if poller:
            with poller._queue._messages_lock:
                poller._queue._messages_lock.notify_all()


POLLERS = Pollers()
