"""Failing jobs that no worker will ever do: a queue whose workers cannot start, and dead letters."""

import json

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.result import Result
from cosmos_batch.state import Jobs, Table
from lambdas.clients import client
from lambdas.log import log
from lambdas.task_tokens import fail

RECEIVED_AT_ONCE = 10
ROUNDS = 20  # of one invocation; the next one goes on
# Longer than an invocation needs for all its rounds: what is left alone must not come again within it.
HIDDEN_SECONDS = 120
WAIT_SECONDS = 1  # a receive that waits asks every one of the queue's servers


class UnreadableMessage(Exception):  # noqa: N818 - the message's fault, not ours
    """No state machine of ours wrote this: there is nobody to tell."""


def refuse_queue(queue_url: str, error: Error, table: Table) -> bool:
    """Fail what waits in a queue. True if some may be left."""
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
            if _refused(message["Body"], error, Jobs(table)):
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=message["ReceiptHandle"])
    return True


def _refused(body: str, error: Error, jobs: Jobs) -> bool:
    """What cannot be read is left to the dead-letter queue."""
    try:
        return refuse_message(body, error, jobs)
    except UnreadableMessage:
        return False


def refuse_message(body: str, error: Error, jobs: Jobs) -> bool:
    """Fail one job. False if its result is decided and only has to be delivered, which is a worker's to do.

    The caller is told first, then the row is closed, then the message goes: a worker that finds a closed row drops the
    job, for who closed it has told. If we die in between, the message comes back, and each step may be taken again.

    A worker may have the job at this moment, if it has lost its lease. From our answer on its heartbeat says that the
    task is gone, and it drops the job. If it commits before it hears of that, its document stands and its answer comes
    second: the caller has heard of this failure, once, as when a person stops an execution in its last moment.
    """
    job_id, token = read_message(body)
    row = jobs.get(job_id)
    if row is not None and row.state == "COMMITTED":
        return False
    reason = error if row is None or row.result is None else row.result.error
    if reason is not None:
        fail(job_id, token, reason)
        log("refused a waiting job", jobId=job_id, code=reason.code)
    jobs.close(job_id, Result(job_id=job_id, error=error), cancelled=False)
    return True


def read_message(body: str) -> tuple[str, str]:
    """Job id and task token, which messages of every schema version have. Raises UnreadableMessage."""
    try:
        message = json.loads(body)
        return message["job"]["jobId"], message["taskToken"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableMessage(type(error).__name__) from error
