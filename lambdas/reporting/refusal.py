"""Fail waiting jobs that no worker will do: those of a queue whose workers cannot start, and dead letters."""

import json

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Jobs, Table
from lambdas.clients import client
from lambdas.log import log
from lambdas.step_functions import send_failure

RECEIVED_AT_ONCE = 10
ROUNDS = 20  # how many batches one invocation receives; the next invocation continues
# The visibility timeout: longer than an invocation takes for all its rounds, so that it receives no message twice.
HIDDEN_SECONDS = 120
WAIT_SECONDS = 1  # long polling: only a receive that waits asks all of the queue's servers


class UnreadableMessage(Exception):  # noqa: N818 - the message's fault, not ours
    """The state machine did not write this message: it has no task token to answer."""


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
            if _refuse_if_readable(message["Body"], error, Jobs(table)):
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return True


def _refuse_if_readable(body: str, error: Error, jobs: Jobs) -> bool:
    """Fail one job. Return False for a message that cannot be read, which SQS moves to the dead-letter queue later."""
    try:
        return refuse_message(body, error, jobs)
    except UnreadableMessage:
        return False


def refuse_message(body: str, error: Error, jobs: Jobs) -> bool:
    """Fail one job. Return False if its result is committed: a worker has to deliver it.

    The caller is answered first, then the row is closed, then the message is deleted. A worker that finds a closed row
    drops the job, because the caller was answered before. After a crash in between the message is received again, and
    each step allows to be taken twice.

    A worker that has lost its lease may still do the job. Once the task token is answered, its heartbeat fails with
    TaskTimedOut, and it drops the job. If it commits before its next heartbeat, the document stays, but its answer is
    ignored: the caller gets this failure only, as when a person stops an execution at the last moment.
    """
    job_id, token = read_message(body)
    row = jobs.get(job_id)
    if row is not None and row.state == "COMMITTED":
        return False
    reason = error if row is None or row.result is None else row.result.error
    if reason is not None:
        send_failure(job_id, token, reason)
        log("refused a waiting job", jobId=job_id, code=reason.code)
    jobs.close(job_id, Result(job_id=job_id, error=error), cancelled=False)
    return True


def read_message(body: str) -> tuple[str, str]:
    """Return the job's id and the task token, which messages of every schema version have. Raises UnreadableMessage."""
    try:
        message = json.loads(body)
        return message["job"]["jobId"], message["taskToken"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableMessage(type(error).__name__) from error
