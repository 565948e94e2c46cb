"""Batches of SQS records, each of which succeeds or fails by itself (Lambda's `ReportBatchItemFailures`)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from lambdas.log import log, log_fault

# How long before the function's timeout to answer: at the timeout, Lambda returns the whole batch to the queue.
MARGIN_SECONDS = 5

Record = dict[str, Any]


def each_record(event: dict[str, Any], take: Callable[[Record], None], context: Any = None) -> dict[str, Any]:
    """Call `take` with every record, all at the same time, and return the answer that names the records that failed.

    A record has failed if `take` raised, or is not done `MARGIN_SECONDS` before the function's timeout, which is known
    from Lambda's `context`. Its message is received again; a late one may be handled twice.
    """
    records: list[Record] = event["Records"]
    pool = ThreadPoolExecutor(len(records))
    tasks = {pool.submit(_succeeds, record, take): record for record in records}
    _, late = wait(tasks, timeout=_seconds_left(context))
    pool.shutdown(wait=False, cancel_futures=True)
    for task in late:
        log("record is late", level="ERROR", messageId=tasks[task]["messageId"])
    return batch_failures([record for task, record in tasks.items() if task in late or not task.result()])


def batch_failures(records: list[Record]) -> dict[str, Any]:
    """Return the answer to Lambda that sends these records back to their queue."""
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


def _seconds_left(context: Any) -> float | None:
    """Return how many seconds the records may take; None, which is no limit, without a context."""
    return None if context is None else max(0.0, context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS)


def _succeeds(record: Record, take: Callable[[Record], None]) -> bool:
    try:
        take(record)
    except Exception as error:
        log_fault("record failed", error, messageId=record["messageId"])
        return False
    return True
