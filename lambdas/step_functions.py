"""Calls to Step Functions: start executions of the state machine, and answer task tokens."""

import json
from typing import Any

from cosmos_batch.contract.error import Error
from cosmos_batch.contract.request import Request
from lambdas.clients import Throttled, client
from lambdas.log import log
from lambdas.long_texts import keep_if_long, prompt_location

# The error codes of an answer that nobody waits for: the task timed out or was stopped, it was answered before, or the
# token is of another account or region.
NOBODY_WAITS = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


def start_execution(machine_arn: str, name: str, request: Request, state_bucket: str) -> bool:
    """Start the execution of this name, whose input is the request.

    Return False if an execution of this name was started before with another input, which is no error. A long prompt is
    written to S3 before the execution starts, for `plan` reads it there.
    """
    prompt, uri = keep_if_long(request.prompt, prompt_location(state_bucket, name))
    if uri is not None:
        request = request.model_copy(update={"prompt": prompt, "prompt_uri": uri})
    return _start(machine_arn, name, request.model_dump_json(exclude_defaults=True))


def start_run(machine_arn: str, run: str) -> bool:
    """Start the execution of a run whose objects are written. It is named after the run, so that there is one.

    Return False if it was started before, which is no error.
    """
    return _start(machine_arn, run, json.dumps({"run": {"id": run}}))


def _start(machine_arn: str, name: str, text: str) -> bool:
    stepfunctions = client("stepfunctions")
    try:
        stepfunctions.start_execution(stateMachineArn=machine_arn, name=name, input=text)
    except stepfunctions.exceptions.ExecutionAlreadyExists:
        return False
    return True


def input_of_execution(arn: str) -> dict[str, object]:
    """Return the input that an execution was started with."""
    parsed: dict[str, object] = json.loads(client("stepfunctions").describe_execution(executionArn=arn)["input"])
    return parsed


def send_success(job_id: str, token: str, output: str, stepfunctions: Any = None) -> None:
    """Answer a task token with a job's output (SendTaskSuccess); a token that nobody waits for is logged.

    `stepfunctions` is the boto3 client that calls; by default that of our own account.
    """
    _answer(stepfunctions, job_id, "send_task_success", taskToken=token, output=output)


def send_failure(job_id: str, token: str, error: Error, stepfunctions: Any = None) -> None:
    """Answer a task token with a job's error (SendTaskFailure); a token that nobody waits for is logged.

    `stepfunctions` is the boto3 client that calls; by default that of our own account.
    """
    _answer(stepfunctions, job_id, "send_task_failure", taskToken=token, error=error.code, cause=error.cause())


def call_again(job_id: str, token: str, reason: str) -> None:
    """Let the state that waits with a token call its function again after a pause, as it does where AWS throttles."""
    _answer(None, job_id, "send_task_failure", taskToken=token, error=Throttled.__name__, cause=reason)


def _answer(stepfunctions: Any, job_id: str, operation: str, **arguments: Any) -> None:
    stepfunctions = stepfunctions or client("stepfunctions")
    try:
        getattr(stepfunctions, operation)(**arguments)
    except stepfunctions.exceptions.ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in NOBODY_WAITS:
            raise
        log("nobody waits for this answer", jobId=job_id, code=code)
