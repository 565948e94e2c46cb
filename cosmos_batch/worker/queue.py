"""The queue of a pipeline, as a worker sees it."""

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cosmos_batch.contract.error import Error, explain
from cosmos_batch.contract.job import SCHEMA_VERSION, Job, JobMessage
from cosmos_batch.worker.leases import BATCH, LeaseHolder

_RECEIPTS = "ApproximateReceiveCount"

log = logging.getLogger(__name__)


class _Header(BaseModel):
    """What is read of a message before the rest: any version has these."""

    model_config = ConfigDict(extra="ignore")
    schema_version: int = Field(alias="schemaVersion")
    task_token: str = Field(alias="taskToken")


@dataclass(frozen=True)
class Delivery:
    """One receipt of one message."""

    receipt_handle: str
    task_token: str
    job: Job
    received_at: datetime
    receipts: int = 1  # of the message, this one included


class NewerSchema(Exception):  # noqa: N818 - no fault: another worker will read it
    """The message was written by newer code than this: its version is higher, or it has fields that are not known."""


class Unreadable(Exception):  # noqa: N818 - it carries an Error
    """The message breaks the contract."""

    def __init__(self, task_token: str | None, error: Error) -> None:
        super().__init__(error.message)
        self.task_token = task_token
        self.error = error


class Queue:
    """Receives under lease, deletes, gives back. Every call blocks."""

    def __init__(self, sqs: Any, url: str, leases: LeaseHolder) -> None:
        self._sqs = sqs
        self._url = url
        self._leases = leases

    def try_out(self) -> None:
        """Receive and leave what came where it is. Raises what SQS says where we may not."""
        self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=1, VisibilityTimeout=0, WaitTimeSeconds=0)

    def receive(self, at_most: int, wait_seconds: int) -> list[dict[str, Any]]:
        """Messages as SQS has them, each under lease from here on."""
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=min(at_most, BATCH),
            WaitTimeSeconds=wait_seconds,
            AttributeNames=[_RECEIPTS],
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        if messages:
            self._leases.hold([message["ReceiptHandle"] for message in messages])
        return messages

    def delete(self, receipt_handle: str) -> None:
        """The message is done with."""
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt_handle)
        self._leases.release([receipt_handle])

    def abandon(self, receipt_handle: str) -> None:
        """Let the lease lapse: the message comes back when its visibility timeout has passed."""
        self._leases.release([receipt_handle])

    def give_back(self, receipt_handle: str, after_seconds: int = 0) -> None:
        """Another worker may have the message, at once or after so many seconds."""
        self._leases.release([receipt_handle])
        self._sqs.change_message_visibility(
            QueueUrl=self._url, ReceiptHandle=receipt_handle, VisibilityTimeout=after_seconds
        )


def read(message: dict[str, Any]) -> Delivery:
    """A message's job. Raises NewerSchema or Unreadable."""
    received_at = datetime.now(UTC)
    header = _read_header(message["Body"])
    if header.schema_version > SCHEMA_VERSION:
        raise NewerSchema(f"schema version {header.schema_version}, this worker reads {SCHEMA_VERSION}")
    try:
        body = JobMessage.model_validate_json(message["Body"])
    except ValidationError as error:
        if all(wrong["type"] == "extra_forbidden" for wrong in error.errors()):
            raise NewerSchema(f"unknown fields: {explain(error)}") from error
        raise Unreadable(header.task_token, _contract_broken(explain(error))) from error
    receipts = int(message.get("Attributes", {}).get(_RECEIPTS, 1))
    return Delivery(message["ReceiptHandle"], body.task_token, body.job, received_at, receipts)


def _read_header(body: str) -> _Header:
    try:
        return _Header.model_validate_json(body)
    except ValidationError as error:
        raise Unreadable(None, _contract_broken(explain(error))) from error


def _contract_broken(details: str) -> Error:
    return Error(
        code="Internal",
        message=f"A message in the queue is not a job: {details}"[:2000],
        remedy="Only the state machine writes to this queue. If it wrote this, report it as a fault of Cosmos Batch.",
    )
