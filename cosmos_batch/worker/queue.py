"""The SQS queue of a pipeline: receives messages under lease, and reads the job from each."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cosmos_batch.contract.error import MESSAGE_LIMIT, Error, explain
from cosmos_batch.contract.job import ITEM_SCHEMA_VERSION, Job, JobMessage
from cosmos_batch.worker.leases import BATCH, LeaseHolder

_RECEIPTS = "ApproximateReceiveCount"

log = logging.getLogger(__name__)


class _Header(BaseModel):
    """The fields that messages of every schema version have; they are read before the rest."""

    model_config = ConfigDict(extra="ignore")
    schema_version: int = Field(alias="schemaVersion")
    task_token: str | None = Field(default=None, alias="taskToken")


@dataclass(frozen=True)
class Delivery:
    """A receipt of a message. `receipts` counts how often the message was received, this time included.

    Either an execution waits for the job with `task_token`, or it is an item of `run` (and perhaps of other runs).
    """

    receipt_handle: str
    task_token: str | None
    job: Job
    received_at: datetime
    receipts: int = 1
    run: str | None = None
    table_only: bool = False


class NewerSchema(Exception):  # noqa: N818 - no fault: a newer worker can read it
    """Newer code wrote the message: it has a higher schema version, or fields that this worker does not know."""


class InvalidMessage(Exception):  # noqa: N818 - it carries an Error
    """The message is no `JobMessage`. Its task token, if it has one, can still be answered with `error`."""

    def __init__(self, task_token: str | None, error: Error) -> None:
        super().__init__(error.message)
        self.task_token = task_token
        self.error = error


class Queue:
    """Receives messages, deletes them and gives them back, and keeps their leases in step. Every call blocks."""

    def __init__(self, sqs: Any, url: str, leases: LeaseHolder) -> None:
        self._sqs = sqs
        self._url = url
        self._leases = leases

    def check_access(self) -> list[dict[str, Any]]:
        """Receive without hiding any message, to see that this worker may, and return what came.

        Raises ClientError where it may not.
        """
        response = self._sqs.receive_message(
            QueueUrl=self._url, MaxNumberOfMessages=1, VisibilityTimeout=0, WaitTimeSeconds=0
        )
        messages: list[dict[str, Any]] = response.get("Messages", [])
        return messages

    def receive(self, at_most: int, wait_seconds: int) -> list[dict[str, Any]]:
        """Return messages in the form of SQS. Each is under lease from now on."""
        response = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=min(at_most, BATCH),
            WaitTimeSeconds=wait_seconds,
            AttributeNames=[_RECEIPTS],
        )
        messages: list[dict[str, Any]] = response.get("Messages", [])
        if messages:
            self._leases.hold([message["ReceiptHandle"] for message in messages])
        return messages

    def delete(self, receipt_handle: str) -> None:
        """Delete the message and release its lease."""
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt_handle)
        self._leases.release([receipt_handle])

    def abandon(self, receipt_handle: str) -> None:
        """Renew the lease no more: the message becomes visible again when its visibility timeout has passed."""
        self._leases.release([receipt_handle])

    def give_back(self, receipt_handle: str, after_seconds: int = 0) -> None:
        """Release the lease, and make the message visible to all workers again after `after_seconds`."""
        self._leases.release([receipt_handle])
        self._sqs.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=receipt_handle, VisibilityTimeout=after_seconds
        )


def read_message(message: dict[str, Any]) -> Delivery:
    """Parse a message of SQS. Raises NewerSchema or InvalidMessage."""
    received_at = datetime.now(UTC)
    header = _read_header(message["Body"])
    if header.schema_version > ITEM_SCHEMA_VERSION:
        raise NewerSchema(f"schema version {header.schema_version}, this worker reads {ITEM_SCHEMA_VERSION}")
    try:
        body = JobMessage.model_validate_json(message["Body"])
    except ValidationError as error:
        if all(problem["type"] == "extra_forbidden" for problem in error.errors()):
            raise NewerSchema(f"unknown fields: {explain(error)}") from error
        raise InvalidMessage(header.task_token, _contract_broken(explain(error))) from error
    receipts = int(message.get("Attributes", {}).get(_RECEIPTS, 1))
    return Delivery(
        message["ReceiptHandle"], body.task_token, body.job, received_at, receipts, body.run, body.table_only
    )


def _read_header(body: str) -> _Header:
    try:
        return _Header.model_validate_json(body)
    except ValidationError as error:
        raise InvalidMessage(None, _contract_broken(explain(error))) from error


def _contract_broken(details: str) -> Error:
    return Error(
        code="Internal",
        message=f"A message in the queue is not a job: {details}"[:MESSAGE_LIMIT],
        remedy="Only the state machine and `feed` write to this queue. If one of them wrote this, report it as a fault "
        "of Cosmos Batch.",
    )
