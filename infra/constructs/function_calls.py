"""States of the state machine that call functions, and retriers with growing pauses."""

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

# The execution, in the payload of a function.
EXECUTION = {"id.$": "$$.Execution.Id", "name.$": "$$.Execution.Name", "startTime.$": "$$.Execution.StartTime"}
LONGEST_PAUSE = Duration.minutes(5)


def call(
    scope: Construct,
    name: str,
    function: lambda_.IFunction,
    payload: Mapping[str, object],
    result_path: str | None = None,
) -> tasks.LambdaInvoke:
    """Return the state that calls a function, with the retriers of `add_retry` instead of CDK's.

    Step Functions may call the function twice for one state, so the function must be idempotent.
    """
    return tasks.LambdaInvoke(
        scope,
        name,
        lambda_function=function,
        payload=sfn.TaskInput.from_object(dict(payload)),
        payload_response_only=True,
        result_path=result_path,
        retry_on_service_exceptions=False,
    )


def add_retry(
    state: tasks.LambdaInvoke | sfn.CustomState | sfn.DistributedMap, errors: list[str], attempts: int
) -> None:
    """Add a retrier with growing pauses and jitter; 0 attempts means that the errors are not tried again."""
    if attempts == 0:
        state.add_retry(errors=errors, max_attempts=0)
        return
    state.add_retry(
        errors=errors,
        interval=Duration.seconds(2),
        max_attempts=attempts,
        max_delay=LONGEST_PAUSE,
        backoff_rate=2,
        jitter_strategy=sfn.JitterType.FULL,
    )
