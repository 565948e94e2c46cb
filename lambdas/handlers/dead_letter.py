"""`dead_letter`: a message was received a thousand times and nobody brought its job to an end. Its caller is told."""

from functools import cache
from typing import Any

from cosmos_batch.contract.environment import DeadLetterEnvironment
from cosmos_batch.contract.error import Error
from cosmos_batch.contract.metrics import DEAD_LETTERS, UNKNOWN
from cosmos_batch.state import JobRow, Jobs
from lambdas.clients import state_table
from lambdas.log import log
from lambdas.metrics import measure
from lambdas.reporting.refusal import UnreadableMessage, read_message, refuse_message
from lambdas.sqs_batches import Record, each_record
from lambdas.task_tokens import fail


@cache
def environment() -> DeadLetterEnvironment:
    """Of this function."""
    return DeadLetterEnvironment.read()


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """A batch of a pipeline's dead-letter queue."""
    return each_record(event, take, context)


def take(record: Record) -> None:
    """One dead letter. Taking it empties the queue, so the alarm hangs on the metric and not on the queue's depth."""
    try:
        job_id, token = read_message(record["body"])
    except UnreadableMessage:
        log("unreadable dead letter dropped", level="ERROR", messageId=record["messageId"])
        measure(UNKNOWN, {DEAD_LETTERS: 1})
        return
    jobs = Jobs(state_table(environment().state_table))
    row = jobs.get(job_id)
    error = why(row)
    if not refuse_message(record["body"], error, jobs):
        fail(job_id, token, error)
        jobs.finish(job_id, error)
    measure(row.pipeline if row else UNKNOWN, {DEAD_LETTERS: 1})


def why(row: JobRow | None) -> Error:
    """The reason, as far as the row tells it."""
    if row is not None and row.state == "COMMITTED":
        return Error(
            code="Internal",
            message="The answer was found but could not be delivered.",
            remedy=f"Check that the worker may write {row.document}, then start the job again.",
        )
    if row is not None and row.attempts > 0:
        return Error(
            code="EngineFailed",
            message=f"The engine began the job {row.attempts} times and never ended it.",
            remedy="See the workers' log; try the file alone.",
        )
    return Error(
        code="Internal",
        message="Workers received the job again and again, and none began it.",
        remedy="See the workers' log; start the job again.",
        retryable=True,
    )
