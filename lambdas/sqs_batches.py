"""A batch of SQS records: each stands for itself, and only those that failed come back."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from lambdas.log import log, log_fault

# Before a function's timeout, at which Lambda returns the whole batch.
MARGIN_SECONDS = 5

Record = dict[str, Any]


def each_record(event: dict[str, Any], take: Callable[[Record], None], context: Any = None) -> dict[str, Any]:
    """Give every record to `take`, all at the same time; the answer names those that come back.

    Those are the ones that raised, and the ones that are not done shortly before the function's timeout, of which
    `context`, Lambda's own, knows (ReportBatchItemFailures). What is late may still be done, and then be done again.
    """
    records: list[Record] = event["Records"]
    pool = ThreadPoolExecutor(len(records))
    tasks = {pool.submit(_taken, record, take): record for record in records}
    _, late = wait(tasks, timeout=_patience(context))
    pool.shutdown(wait=False, cancel_futures=True)
    for task in late:
        log("record is late", level="ERROR", messageId=tasks[task]["messageId"])
    return failed([record for task, record in tasks.items() if task in late or not task.result()])


def failed(records: list[Record]) -> dict[str, Any]:
    """The answer that sends these records back to their queue."""
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


def _patience(context: Any) -> float | None:
    """How many seconds may be waited; without a context, any number of them."""
    return None if context is None else max(0.0, context.get_remaining_time_in_millis() / 1000 - MARGIN_SECONDS)


def _taken(record: Record, take: Callable[[Record], None]) -> bool:
    try:
        take(record)
    except Exception as error:
        log_fault("record failed", error, messageId=record["messageId"])
        return False
    return True
