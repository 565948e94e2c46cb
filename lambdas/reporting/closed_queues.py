"""End the jobs in the queue of a pipeline that a deployment removes: no worker will do them any more.

Each queue has a custom resource that depends on it. CloudFormation deletes that one first, and deletes the queue when
it is answered (decision 014).
"""

from collections.abc import Callable
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.state import Table, Workers
from lambdas.clients import client, is_throttling
from lambdas.cloudformation import answer_cloudformation, request_to_answer
from lambdas.job_queues import count_jobs
from lambdas.log import log, log_fault
from lambdas.reporting.refusal import refuse_queue

# The time that is kept for the last look at the queue, which may refuse 200 jobs, and for the answer.
MARGIN_SECONDS = 90
REMOVED = "Its pipeline is removed."  # TerminateJob's reason, for people


def close_if_deleted(event: dict[str, Any], table: Table, seconds_left: Callable[[], float]) -> None:
    """Handle a request of CloudFormation, of which only the deletion changes anything.

    A fault does not fail the deletion, which would leave the queue behind; the jobs then end at their deadlines.
    """
    properties = event["ResourceProperties"]
    pipeline, queue_url = properties["Pipeline"], properties["QueueUrl"]
    if event["RequestType"] == "Delete":
        try:
            _close(pipeline, queue_url, table, seconds_left)
        except Exception as error:
            log_fault("the queue could not be closed", error, pipeline=pipeline)
    answer_cloudformation(request_to_answer(event, queue_url))


def _close(pipeline: str, queue_url: str, table: Table, seconds_left: Callable[[], float]) -> None:
    """Refuse all jobs of the queue, also those that its workers give back, because they are ended first."""
    error = Error(
        code="InvalidInput",
        message=f"Pipeline {pipeline} was removed from the deployment before the job was done.",
        remedy="Use another pipeline; or enable this one in config.json and deploy, and start the job again.",
    )
    are_ended = False
    while seconds_left() > MARGIN_SECONDS:
        try:
            if not are_ended:
                _end_workers(Workers(table, pipeline))
                are_ended = True
            if not refuse_queue(queue_url, error, table) and count_jobs(queue_url) == 0:
                return
        except Exception as fault:
            if not is_throttling(fault):
                raise
    log("jobs are left in a queue that is deleted", level="ERROR", pipeline=pipeline, jobs=count_jobs(queue_url))


def _end_workers(workers: Workers) -> None:
    """Terminate the workers, as AWS Batch does some time later, when their job queue is deleted too."""
    for row in workers.list():
        if row.state == "ENDED":
            continue
        try:
            client("batch").terminate_job(jobId=row.worker, reason=REMOVED)
        except Exception as error:
            if is_throttling(error):
                raise
            log_fault("a worker could not be ended", error, worker=row.worker)
