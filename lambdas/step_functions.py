"""Starting an execution, whoever asks for it. Asked twice, it is one."""

import json

from cosmos_batch.catalogue.limits import PROMPT_INLINE_LIMIT
from cosmos_batch.contract.request import Request
from cosmos_batch.contract.s3 import S3Location
from lambdas.clients import client


def start(machine_arn: str, name: str, request: Request, state_bucket: str) -> bool:
    """Start the execution of this name. False if another request had the name first: that is no error.

    The prompt goes to S3 before the execution starts: `plan` must find it.
    """
    stepfunctions = client("stepfunctions")
    prompt, uri = keep_if_long(request.prompt, prompt_location(state_bucket, name))
    if uri is not None:
        request = request.model_copy(update={"prompt": prompt, "prompt_uri": uri})
    text = request.model_dump_json(exclude_defaults=True)
    try:
        stepfunctions.start_execution(stateMachineArn=machine_arn, name=name, input=text)
    except stepfunctions.exceptions.ExecutionAlreadyExists:
        return False
    return True


def keep_if_long(text: str | None, place: S3Location) -> tuple[str | None, str | None]:
    """The text, or where it lies if it is a long one: a history, a message and an event have small limits."""
    if text is None or len(text.encode()) <= PROMPT_INLINE_LIMIT:
        return text, None
    client("s3").put_object(
        Bucket=place.bucket, Key=place.key, Body=text.encode(), ContentType="text/plain; charset=utf-8"
    )
    return None, place.uri


def prompt_location(state_bucket: str, job_id: str) -> S3Location:
    """Where the long prompt of a request lies."""
    return S3Location(state_bucket, f"requests/{job_id}/prompt.txt")


def question_location(state_bucket: str, job_id: str) -> S3Location:
    """Where the long question of a job lies, which was made of the prompt: planned again, it must be made anew."""
    return S3Location(state_bucket, f"requests/{job_id}/question.txt")


def words_location(state_bucket: str, job_id: str) -> S3Location:
    """Where the caller's own words lie, if they are long and the question holds more than them."""
    return S3Location(state_bucket, f"requests/{job_id}/words.txt")


def execution_arn(machine_arn: str, name: str) -> str:
    """The ARN of an execution by its name."""
    return f"{machine_arn.replace(':stateMachine:', ':execution:')}:{name}"


def input_of(arn: str) -> dict[str, object]:
    """What an execution was started with."""
    parsed: dict[str, object] = json.loads(client("stepfunctions").describe_execution(executionArn=arn)["input"])
    return parsed
