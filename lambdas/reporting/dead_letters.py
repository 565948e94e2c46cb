"""Fail the jobs of dead letters, and count them."""

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.metrics import DEAD_LETTERS, UNKNOWN
from cosmos_batch.contract.result import Result
from cosmos_batch.state import JobRow, Jobs, Runs, Table
from lambdas.log import log
from lambdas.metrics import measure
from lambdas.reporting.refusal import UnreadableMessage, read_message, refuse_message
from lambdas.runs.shard_ends import count_and_answer
from lambdas.sqs_records import Record
from lambdas.step_functions import send_failure


def answer_dead_letter(record: Record, table: Table) -> None:
    """Fail the job of one dead letter.

    Its alarm watches the metric and not the queue's depth, for a handled record leaves the queue.
    """
    try:
        job_id, token, run = read_message(record["body"])
    except UnreadableMessage:
        log("unreadable dead letter dropped", level="ERROR", messageId=record["messageId"])
        measure(UNKNOWN, {DEAD_LETTERS: 1})
        return
    jobs = Jobs(table)
    row = jobs.get(job_id)
    error = error_of_dead_letter(row)
    if run is not None:
        _fail_item(row, error, table)
    elif token is not None and not refuse_message(record["body"], error, table):
        send_failure(job_id, token, error)
        jobs.finish(job_id, error)
    measure(row.pipeline if row else UNKNOWN, {DEAD_LETTERS: 1})


def _fail_item(row: JobRow | None, error: Error, table: Table) -> None:
    """Fail the job of a run's item, unless it has ended, and count it in the shards that wait for it."""
    if row is None:
        return
    jobs = Jobs(table)
    closed = jobs.close(row.job_id, Result(job_id=row.job_id, error=error), cancelled=False)
    if closed is not None and closed.state == "COMMITTED":
        closed = jobs.finish(row.job_id, error)
    count_and_answer(closed, Runs(table))


def error_of_dead_letter(row: JobRow | None) -> Error:
    """Return the error for the job of a dead letter, by the stage that its row shows."""
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
