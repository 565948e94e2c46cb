"""The state machine: plan, enqueue, report, for one file of any pipeline."""

from collections.abc import Mapping

from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from cosmos_batch.contract.job import SCHEMA_VERSION
from infra.constructs.permissions import allow

# How Lambda names the exception by which `plan` refuses a request: it would refuse it again.
REFUSED = "Failure"
EVERYTHING = ["States.ALL"]
EXECUTION = {"id.$": "$$.Execution.Id", "name.$": "$$.Execution.Name", "startTime.$": "$$.Execution.StartTime"}


class Workflow(Construct):
    """`plan` decides, the message waits with the task token, `report` hears of every end.

    The state machine's own timeout is a backstop behind the longest deadline, which the waiting state keeps. An
    execution that is stopped or timed out reports by its event (`ExecutionEnds`).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        plan: lambda_.IFunction,
        report: lambda_.IFunction,
        longest_deadline: Duration,
        tracing: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.log = logs.LogGroup(self, "Log", removal_policy=RemovalPolicy.DESTROY)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            definition_body=sfn.DefinitionBody.from_chainable(self._definition(plan, report)),
            state_machine_type=sfn.StateMachineType.STANDARD,
            timeout=longest_deadline.plus(Duration.days(1)),
            tracing_enabled=tracing,
            logs=sfn.LogOptions(
                destination=self.log,
                level=sfn.LogLevel.ALL,
                include_execution_data=False,  # it holds prompts and task tokens
            ),
        )

    def allow_queue(self, queue: sqs.Queue) -> None:
        """Let executions put jobs into a pipeline's queue."""
        allow(self.machine, ["sqs:SendMessage"], [queue.queue_arn])

    def _definition(self, plan: lambda_.IFunction, report: lambda_.IFunction) -> sfn.IChainable:
        # The result stays the execution's output, for whoever reads it there.
        answered = self._call(
            "Report", report, {"execution": EXECUTION, "result.$": "$"}, result_path=sfn.JsonPath.DISCARD
        ).next(sfn.Succeed(self, "Succeeded"))
        failed = self._call("ReportError", report, {"execution": EXECUTION, "error.$": "$"}).next(
            sfn.Fail(self, "Failed", error_path="$.error", cause_path="$.cause")
        )
        # The error takes the place of the input: that may be of any JSON type, and then has no `$.error` to fill.
        planned = self._call("Plan", plan, {"request.$": "$", "execution": EXECUTION}, final_error=REFUSED)
        planned.add_catch(failed, errors=EVERYTHING, result_path="$")
        enqueued = sfn.CustomState(self, "Enqueue", state_json=_enqueue(Stack.of(self).partition))
        enqueued.add_catch(failed, errors=EVERYTHING, result_path="$")
        return planned.next(enqueued).next(answered)

    def _call(
        self,
        name: str,
        function: lambda_.IFunction,
        payload: Mapping[str, object],
        result_path: str | None = None,
        final_error: str | None = None,
    ) -> tasks.LambdaInvoke:
        """A function that may be called twice: whatever failed, it is tried again, unless it says that this is final.

        Most faults pass: of S3, DynamoDB and SQS as much as of Lambda, and a request must not fail of one for good.
        """
        call = tasks.LambdaInvoke(
            self,
            name,
            lambda_function=function,
            payload=sfn.TaskInput.from_object(dict(payload)),
            payload_response_only=True,
            result_path=result_path,
            retry_on_service_exceptions=False,
        )
        if final_error is not None:
            call.add_retry(errors=[final_error], max_attempts=0)  # the first retrier that matches decides
        call.add_retry(
            errors=EVERYTHING,
            interval=Duration.seconds(2),
            max_attempts=6,
            backoff_rate=2,
            jitter_strategy=sfn.JitterType.FULL,
        )
        return call


def _enqueue(partition: str) -> dict[str, object]:
    """Of the job as planned; the worker that takes it answers the token.

    A CDK task would want one queue: here `plan` names it. There is no Lambda between, whose retry would send twice.
    """
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {
            "QueueUrl.$": "$.queueUrl",
            # On a standard queue a group holds nothing up: SQS serves the groups fairly.
            "MessageGroupId.$": "$.messageGroup",
            "MessageBody": {
                "schemaVersion": SCHEMA_VERSION,
                "taskToken.$": "$$.Task.Token",
                "job.$": "$.job",
            },
        },
        "TimeoutSecondsPath": "$.timeoutSeconds",
        "HeartbeatSecondsPath": "$.heartbeatSeconds",
    }
