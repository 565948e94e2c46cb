"""The state machine, which plans, enqueues and reports one job of any pipeline, or feeds and finishes a run."""

from aws_cdk import CfnDeletionPolicy, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.job import PLAN_AGAIN, SCHEMA_VERSION, SQS_FAILED, SQS_UNREACHABLE
from infra.constructs.function_calls import EXECUTION, LONGEST_PAUSE, add_retry, call
from infra.constructs.function_errors import EVERYTHING, PASSING, REFUSED
from infra.constructs.permissions import allow, shard_answers, shard_delays
from infra.constructs.run_states import RUN_TIMEOUT, RunFunctions, RunStates

FEW_ATTEMPTS = 6
# The number of times that a message is sent to SQS before its job is planned again, which also finds out whether the
# deadline has passed. These take eight and a half minutes at most, which is less than VAMS waits after the deadline
# (`MARGIN_SECONDS`). Each round adds about 35 events to the execution's history, which ends at 25,000.
SQS_ATTEMPTS = 8
# The wait between a worker's refusal of a job that was planned for another deployment and the next plan. Meanwhile
# `scale`, which each plan nudges, asks the workers of the earlier deployment to leave. While CloudFormation has updated
# only some of the functions, the wait limits the number of rounds.
PLAN_AGAIN_AFTER = Duration.seconds(5)


class Workflow(Construct):
    """The state machine. It calls `plan`, sends the job with a task token and waits, and calls `report`.

    A job that was planned for another model or configuration than the deployed one is planned again, from the input of
    its execution (decision 064). So is one whose message SQS does not take for a while (decision 005).

    The waiting state times out at the job's deadline, and a failing `report` is tried again until a day after the
    longest deadline. The timeout of the whole state machine is that of runs, which it begins with `run` in the input
    (`RunStates`). An execution that is stopped or times out cannot call `report`, which gets its event instead
    (`ExecutionEnds`).
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        plan: lambda_.IFunction,
        report: lambda_.IFunction,
        longest_deadline: Duration,
        tracing: bool,
        runs: RunFunctions,
        run_objects: s3.IBucket,
    ) -> None:
        super().__init__(scope, construct_id)
        self._timeout = longest_deadline.plus(Duration.days(1))
        self.log = _make_log(self)
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            definition_body=sfn.DefinitionBody.from_chainable(self._first(plan, report, runs, run_objects)),
            state_machine_type=sfn.StateMachineType.STANDARD,
            timeout=RUN_TIMEOUT,
            tracing_enabled=tracing,
            logs=sfn.LogOptions(
                destination=self.log,
                level=sfn.LogLevel.ALL,
                include_execution_data=False,  # it holds prompts and task tokens
            ),
        )

        # Separate policies, because the functions depend on the default policies of their roles and the machine depends
        # on the functions: the machine's ARN in a default policy would be a circular dependency.
        iam.Policy(
            self,
            "ShardAnswersPolicy",
            statements=[shard_answers(self.machine)],
            roles=[role for function in (runs.feed, runs.collect, runs.finish) if (role := function.role) is not None],
        )
        feed_role = runs.feed.role
        assert feed_role is not None, "our functions have roles"
        iam.Policy(self, "ShardDelaysPolicy", statements=[shard_delays(self.machine)], roles=[feed_role])

    def allow_queue(self, queue: sqs.Queue) -> None:
        """Allow executions to send messages to a pipeline's queue."""
        allow(self.machine, ["sqs:SendMessage"], [queue.queue_arn])

    def _first(
        self, plan: lambda_.IFunction, report: lambda_.IFunction, runs: RunFunctions, run_objects: s3.IBucket
    ) -> sfn.IChainable:
        """Return the state that tells a run from a request about one file, with all that follow."""
        states = RunStates(self, "Runs", runs, run_objects)
        return (
            sfn.Choice(self, "IsItARun")
            .when(sfn.Condition.is_present("$.run"), states.start)
            .otherwise(self._job_states(plan, report))
        )

    def _job_states(self, plan: lambda_.IFunction, report: lambda_.IFunction) -> sfn.IChainable:
        """Return the states that plan one job, send it and wait for its end, and report the end to the caller."""
        # DISCARD drops the answer of `report`, so that the job's result stays the execution's output.
        answered = call(self, "Report", report, {"execution": EXECUTION, "result.$": "$"}, sfn.JsonPath.DISCARD)
        add_retry(answered, EVERYTHING, self._attempts_until_timeout)
        failed = self._report_error(report)
        # "$" would be the execution's input only the first time, and not when a job is planned again.
        request = {"request.$": "$$.Execution.Input", "execution": EXECUTION, "schemaVersion": SCHEMA_VERSION}
        planned = call(self, "Plan", plan, request)
        add_retry(planned, [REFUSED], 0)  # the first retrier that matches decides
        add_retry(planned, PASSING, self._attempts_until_timeout)  # `plan` refuses a job whose deadline has passed
        add_retry(planned, EVERYTHING, FEW_ATTEMPTS)
        # The error replaces the input, which may be of any JSON type: only an object could get a field `error`.
        planned.add_catch(failed, errors=EVERYTHING, result_path="$")
        enqueued = sfn.CustomState(self, "Enqueue", state_json=_enqueue(Stack.of(self).partition))
        again = sfn.Wait(self, "BeforePlanningAgain", time=sfn.WaitTime.duration(PLAN_AGAIN_AFTER)).next(planned)
        # These two errors of SQS alone: States.TaskFailed would also match the error of a job that a worker reports.
        add_retry(enqueued, [SQS_UNREACHABLE, SQS_FAILED], SQS_ATTEMPTS)
        enqueued.add_catch(again, errors=[PLAN_AGAIN], result_path=sfn.JsonPath.DISCARD)
        unsent = self._unsent(again, failed)
        enqueued.add_catch(unsent, errors=[SQS_UNREACHABLE, SQS_FAILED], result_path="$")
        enqueued.add_catch(failed, errors=EVERYTHING, result_path="$")
        return planned.next(enqueued).next(answered).next(sfn.Succeed(self, "Succeeded"))

    def _unsent(self, again: sfn.IChainable, failed: sfn.IChainable) -> sfn.IChainable:
        """Return the state after SQS did not take a message: plan it again if the fault passes, or report the error.

        A queue that is gone belongs to a pipeline that was removed meanwhile: `plan` says so.

        The cause has the text of AWS's SDK, such as "... (Service: AmazonSQS; Status Code: 503; Error Code: ...".
        """
        faults = [
            sfn.Condition.string_matches("$.Cause", text)
            for text in ("*Status Code: 5*", "*hrottl*", "*NonExistentQueue*")
        ]
        fault = sfn.Condition.and_(sfn.Condition.is_present("$.Cause"), sfn.Condition.or_(*faults))
        unreachable = sfn.Condition.string_equals("$.Error", SQS_UNREACHABLE)
        return (
            sfn.Choice(self, "MaySqsTakeItLater").when(sfn.Condition.or_(unreachable, fault), again).otherwise(failed)
        )

    def _report_error(self, report: lambda_.IFunction) -> sfn.IChainable:
        """Return the states that report an error and then fail with it.

        They succeed with the job's result instead if `report` finds that the job has one.
        """
        # `report` writes an error document beside the uploaded file, which the execution's input names.
        execution = {**EXECUTION, "input.$": "$$.Execution.Input"}
        reported = call(self, "ReportError", report, {"execution": execution, "error.$": "$"})
        add_retry(reported, EVERYTHING, self._attempts_until_timeout)
        succeeded = sfn.Succeed(self, "SucceededBeforeTheError", output_path="$.result")
        failed = sfn.Fail(self, "Failed", error_path="$.error", cause_path="$.cause")
        end = sfn.Choice(self, "HasItFailed").when(sfn.Condition.is_null("$.error"), succeeded).otherwise(failed)
        return reported.next(end)

    @property
    def _attempts_until_timeout(self) -> int:
        """Return twice the number of attempts that fit into the timeout with pauses of `LONGEST_PAUSE` between them.

        With full jitter a pause is half of that on average.
        """
        return 2 * int(self._timeout.to_seconds() / LONGEST_PAUSE.to_seconds())


def _make_log(scope: Construct) -> logs.LogGroup:
    """Create the log group of the state machine.

    Step Functions grants itself each log group in one policy of CloudWatch Logs that an account has for all its state
    machines, of 5,120 characters at most. For groups below `/aws/vendedlogs/` it needs no entry there.
    """
    name = f"/aws/vendedlogs/states/{Stack.of(scope).stack_name}-Workflow"
    log = logs.LogGroup(scope, "Log", log_group_name=name, removal_policy=RemovalPolicy.DESTROY)
    resource = log.node.default_child
    assert isinstance(resource, logs.CfnLogGroup)
    # Earlier deployments have a group with a name that CloudFormation chose. Its content is kept until it expires.
    resource.cfn_options.update_replace_policy = CfnDeletionPolicy.RETAIN
    return log


def _enqueue(partition: str) -> dict[str, object]:
    """Return the state that sends the planned job to its queue and waits until a worker answers the task token.

    CDK's own task has a fixed queue, and here `plan` chooses it. Step Functions sends the message itself, for a Lambda
    function that is called again after an error could send it twice.
    """
    return {
        "Type": "Task",
        "Resource": f"arn:{partition}:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {
            "QueueUrl.$": "$.queueUrl",
            # A standard queue has fair message groups: a group does not block, and SQS serves the groups in turn.
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
