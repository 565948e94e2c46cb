"""A batch of SQS records: each stands for itself, and only those that failed come back."""

from collections.abc import Callable
from typing import Any

from lambdas.log import log_fault

Record = dict[str, Any]


def each_record(event: dict[str, Any], take: Callable[[Record], None]) -> dict[str, Any]:
    """Give every record to `take`; the answer names those that raised (ReportBatchItemFailures)."""
    return failed([record for record in event["Records"] if not _taken(record, take)])


def failed(records: list[Record]) -> dict[str, Any]:
    """The answer that sends these records back to their queue."""
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


def _taken(record: Record, take: Callable[[Record], None]) -> bool:
    try:
        take(record)
    except Exception as error:
        log_fault("record failed", error, messageId=record["messageId"])
        return False
    return True
