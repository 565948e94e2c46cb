"""Answering a task token. Answered before, or waited for by nobody, it is no error."""

from typing import Any

from cosmos_batch.contract.error import Error
from lambdas.clients import client
from lambdas.log import log

# Timed out or stopped; answered already; of another account or region: in each case nobody can be told.
NOBODY_WAITS = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


def succeed(job_id: str, token: str, output: str, states: Any = None) -> None:
    """SendTaskSuccess, by our own client of Step Functions unless another is given."""
    _answer(states, job_id, "send_task_success", taskToken=token, output=output)


def fail(job_id: str, token: str, error: Error, states: Any = None) -> None:
    """SendTaskFailure, by our own client of Step Functions unless another is given."""
    _answer(states, job_id, "send_task_failure", taskToken=token, error=error.code, cause=error.cause())


def _answer(states: Any, job_id: str, operation: str, **arguments: Any) -> None:
    stepfunctions = states or client("stepfunctions")
    try:
        getattr(stepfunctions, operation)(**arguments)
    except stepfunctions.exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in NOBODY_WAITS:
            raise
        log("nobody waits for this answer", jobId=job_id, code=code)
