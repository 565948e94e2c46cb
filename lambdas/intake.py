"""Starting an execution, whoever asks for it. Asked twice, it is one."""

import json

from cosmos_batch.contract.catalogue import PROMPT_INLINE_LIMIT
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location
from lambdas.clients import client


def start(machine_arn: str, name: str, request: Request, state_bucket: str) -> bool:
    """Start the execution of this name. False if another request had the name first: that is no error.

    The prompt goes to S3 before the execution starts: `plan` must find it.
    """
    stepfunctions = client("stepfunctions")
    request = with_short_prompt(request, name, state_bucket)
    text = request.model_dump_json(exclude_defaults=True)
    try:
        stepfunctions.start_execution(stateMachineArn=machine_arn, name=name, input=text)
    except stepfunctions.exceptions.ExecutionAlreadyExists:
        return False
    return True


def with_short_prompt(request: Request, job_id: str, state_bucket: str) -> Request:
    """The request with a long prompt replaced by a pointer: a history, a message and an event have small limits."""
    if request.prompt is None or len(request.prompt.encode()) <= PROMPT_INLINE_LIMIT:
        return request
    place = prompt_location(state_bucket, job_id)
    client("s3").put_object(
        Bucket=place.bucket, Key=place.key, Body=request.prompt.encode(), ContentType="text/plain; charset=utf-8"
    )
    return request.model_copy(update={"prompt": None, "prompt_uri": place.uri})


def prompt_location(state_bucket: str, job_id: str) -> S3Location:
    """Where the long prompt of a job lies."""
    return S3Location(state_bucket, f"requests/{job_id}/prompt.txt")


def execution_arn(machine_arn: str, name: str) -> str:
    """The ARN of an execution by its name."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def input_of(arn: str) -> dict[str, object]:
    """What an execution was started with."""
    parsed: dict[str, object] = json.loads(client("stepfunctions").describe_execution(executionArn=arn)["input"])
    return parsed
