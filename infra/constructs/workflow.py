"""The state machine: plan, enqueue, report, for one file of any pipeline."""

from collections.abc import Mapping

from aws_cdk import CfnDeletionPolicy, Duration, RemovalPolicy, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from cosmos_batch.contract.job import PLAN_AGAIN, SCHEMA_VERSION
from infra.constructs.permissions import allow

# How Lambda names the exception by which `plan` refuses a request: it would refuse it again.
REFUSED = "Failure"
EVERYTHING = ["States.ALL"]
# Faults of Lambda itself, and throttling by what our functions call: they say nothing of the request. The last three
# are the names of boto3's exceptions.
PASSING = [
    "Lambda.TooManyRequestsException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.SdkClientException",
    "Lambda.ClientExecutionTimeoutException",
    "ThrottlingException",
    "ProvisionedThroughputExceededException",
    "RequestThrottled",
]
FEW_ATTEMPTS = 6
LONGEST_PAUSE = Duration.minutes(5)
# Between a refusal by a worker and the next plan. By then `scale`, which each plan nudges, has told the workers of an
# earlier deployment to leave; and while CloudFormation has updated some functions and not others, the wait keeps the
# number of rounds small.
PLAN_AGAIN_AFTER = Duration.seconds(5)
EXECUTION = {"id.$": "$$.Execution.Id", "name.$": "$$.Execution.Name", "startTime.$": "$$.Execution.StartTime"}


class Workflow(Construct):
    """`plan` decides, the message waits with the task token, `report` hears of every end.

    A job that was planned for another model or configuration than is deployed now is planned again, from the input of
    its execution (decision 064).

    The state machine's own timeout is a backstop behind the longest deadline, which the waiting state keeps. Until
    then `report` is tried again, for somebody waits for it. An execution that is stopped or timed out reports by its
    event (`ExecutionEnds`).
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
        self._timeout = longest_deadline.plus(Duration.days(1))
        self.log = _make_log(self)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            definition_body=sfn.DefinitionBody.from_chainable(self._definition(plan, report)),
            state_machine_type=sfn.StateMachineType.STANDARD,
            timeout=self._timeout,
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
        answered = self._call("Report", report, {"execution": EXECUTION, "result.$": "$"}, sfn.JsonPath.DISCARD)
        self._retry(answered, EVERYTHING, self._attempts_until_timeout)
        failed = self._report_error(report)
        # Not "$": when a job is planned again, that is no longer the input of the execution.
        request = {"request.$": "$$.Execution.Input", "execution": EXECUTION, "schemaVersion": SCHEMA_VERSION}
        planned = self._call("Plan", plan, request)
        self._retry(planned, [REFUSED], 0)  # the first retrier that matches decides
        self._retry(planned, PASSING, self._attempts_until_timeout)  # `plan` itself refuses what is past its deadline
        self._retry(planned, EVERYTHING, FEW_ATTEMPTS)
        # The error takes the place of the input: that may be of any JSON type, and then has no `$.error` to fill.
        planned.add_catch(failed, errors=EVERYTHING, result_path="$")
        enqueued = sfn.CustomState(self, "Enqueue", state_json=_enqueue(Stack.of(self).partition))
        again = sfn.Wait(self, "BeforePlanningAgain", time=sfn.WaitTime.duration(PLAN_AGAIN_AFTER)).next(planned)
        enqueued.add_catch(again, errors=[PLAN_AGAIN], result_path=sfn.JsonPath.DISCARD)
        enqueued.add_catch(failed, errors=EVERYTHING, result_path="$")
        return planned.next(enqueued).next(answered).next(sfn.Succeed(self, "Succeeded"))

    def _report_error(self, report: lambda_.IFunction) -> sfn.IChainable:
        """Tell of an error, and end with it. `report` may find that the job has succeeded: then end with its result."""
        execution = {**EXECUTION, "input.$": "$$.Execution.Input"}  # an error is told beside the file of an upload
        told = self._call("ReportError", report, {"execution": execution, "error.$": "$"})
        self._retry(told, EVERYTHING, self._attempts_until_timeout)
        succeeded = sfn.Succeed(self, "SucceededBeforeTheError", output_path="$.result")
        failed = sfn.Fail(self, "Failed", error_path="$.error", cause_path="$.cause")
        end = sfn.Choice(self, "HasItFailed").when(sfn.Condition.is_null("$.error"), succeeded).otherwise(failed)
        return told.next(end)

    @property
    def _attempts_until_timeout(self) -> int:
        """More than fit into the life of an execution: its pauses grow to the longest within a few attempts."""
        return 2 * int(self._timeout.to_seconds() / LONGEST_PAUSE.to_seconds())

    def _call(
        self, name: str, function: lambda_.IFunction, payload: Mapping[str, object], result_path: str | None = None
    ) -> tasks.LambdaInvoke:
        """A function that may be called twice: CDK's own retriers give way to those of this module."""
        return tasks.LambdaInvoke(
            self,
            name,
            lambda_function=function,
            payload=sfn.TaskInput.from_object(dict(payload)),
            payload_response_only=True,
            result_path=result_path,
            retry_on_service_exceptions=False,
        )

    def _retry(self, call: tasks.LambdaInvoke, errors: list[str], attempts: int) -> None:
        """Try again with growing pauses that differ from execution to execution."""
        if attempts == 0:
            call.add_retry(errors=errors, max_attempts=0)
            return
        call.add_retry(
            errors=errors,
            interval=Duration.seconds(2),
            max_attempts=attempts,
            max_delay=LONGEST_PAUSE,
            backoff_rate=2,
            jitter_strategy=sfn.JitterType.FULL,
        )


def _make_log(scope: Construct) -> logs.LogGroup:
    """Make the log of the state machine.

    Step Functions grants itself each log group in one policy of CloudWatch Logs that an account has for all its state
    machines, of 5,120 characters at most. For groups below `/aws/vendedlogs/` it needs no entry there.
    """
    name = f"/aws/vendedlogs/states/{Stack.of(scope).stack_name}-Workflow"
    log = logs.LogGroup(scope, "Log", log_group_name=name, removal_policy=RemovalPolicy.DESTROY)
    resource = log.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)
    # A deployment from before had a name of CloudFormation's. What that group holds stays until its retention ends.
    resource.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
    return log


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
