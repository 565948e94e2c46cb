"""End the wait of jobs that no worker will do: those of a queue whose workers cannot start, and dead letters.

The job of an execution fails. The items of a run are put back instead, and the run is held until a person resumes it.
"""

import json
from typing import NamedTuple

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import FINAL, ItemJobs, JobRow, Jobs, Runs, Table, Watcher
from lambdas.clients import client
from lambdas.log import log
from lambdas.runs.shard_ends import count_and_answer, park_shard
from lambdas.step_functions import send_failure

RECEIVED_AT_ONCE = 10
ROUNDS = 20  # how many batches one invocation receives; the next invocation continues
# The visibility timeout: longer than an invocation takes for all its rounds, so that it receives no message twice.
HIDDEN_SECONDS = 120
WAIT_SECONDS = 1  # long polling: only a receive that waits asks all of the queue's servers


class UnreadableMessage(Exception):  # noqa: N818 - the message's fault, not ours
    """Neither the state machine nor `feed` wrote this message: it has no task token to answer, and is of no run."""


class QueuedJob(NamedTuple):
    """The job of a message, and who waits for it: an execution with a token, or a run."""

    job_id: str
    token: str | None
    run: str | None


def refuse_queue(queue_url: str, error: Error, table: Table) -> bool:
    """Fail up to `ROUNDS` batches of the jobs that wait in a queue. Return whether some may be left."""
    sqs = client("sqs")
    for _ in range(ROUNDS):
        answer = sqs.receive_message(
            QueueUrl=queue_url,
            MaxNumberOfMessages=RECEIVED_AT_ONCE,
            VisibilityTimeout=HIDDEN_SECONDS,
            WaitTimeSeconds=WAIT_SECONDS,
        )
        messages = answer.get("Messages", [])
        if not messages:
            return False
        for message in messages:
            if _refuse_if_readable(message["Body"], error, table):
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return True


def _refuse_if_readable(body: str, error: Error, table: Table) -> bool:
    """Fail one job. Return False for a message that cannot be read, which SQS moves to the dead-letter queue later."""
    try:
        return refuse_message(body, error, table)
    except UnreadableMessage:
        return False


def refuse_message(body: str, error: Error, table: Table) -> bool:
    """Fail one job. Return False if its result is committed: a worker has to deliver it.

    The caller is answered first, then the row is closed, then the message is deleted. A worker that finds a closed row
    drops the job, because the caller was answered before. After a crash in between the message is received again, and
    each step allows to be taken twice.

    A worker that has lost its lease may still do the job. Once the task token is answered, its heartbeat fails with
    TaskTimedOut, and it drops the job. If it commits a result before the row is closed, the row keeps that result, and
    `report.close_job`, which reads the row again, tells the caller the result instead of this failure.

    An item of a run does not fail: it waits for the cause to be removed, and its runs are held.
    """
    job_id, token, run = read_message(body)
    jobs = Jobs(table)
    row = jobs.get(job_id)
    if token is None and run is not None:
        return row is None or _put_back(row, error, table)
    if row is not None and row.state == "COMMITTED":
        return False
    reason = error if row is None or row.result is None else row.result.error
    if reason is not None and token is not None:
        send_failure(job_id, token, reason)
        log("refused a waiting job", jobId=job_id, code=reason.code)
    jobs.close(job_id, Result(job_id=job_id, error=error), cancelled=False)
    return True


def _put_back(row: JobRow, error: Error, table: Table) -> bool:
    """Hold the runs that wait for an item, whose message is deleted then. Return False if a worker may still have it.

    The shards that wait for the item are parked. When a run goes on, it feeds them again, and what is not noted as sent
    is sent then. The note is removed first: after a crash in between, the message is received again.
    """
    jobs, runs = ItemJobs(table), Runs(table)
    if row.state in FINAL:
        count_and_answer(row, runs)
        return True
    jobs.close_lost_attempt(row)
    if not jobs.unsent(row.job_id):
        return False
    for watcher in map(Watcher.parse, row.watchers):
        if runs.get(watcher.run) is None or runs.hold(watcher.run, f"{error.message} {error.remedy}").stops:
            continue  # its end closes what it waits for
        park_shard(watcher.run, watcher.shard, runs, jobs)
    log("put back an item that no worker can do now", jobId=row.job_id, code=error.code)
    return True


def read_message(body: str) -> QueuedJob:
    """Return the job of a message of any schema version, and who waits for it. Raises UnreadableMessage."""
    try:
        message = json.loads(body)
        queued = QueuedJob(message["job"]["jobId"], message.get("taskToken"), message.get("run"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableMessage(type(error).__name__) from error
    if queued.token is None and queued.run is None:
        raise UnreadableMessage("neither a token nor a run")
    return queued
