"""`report` hears of the executions that could not call it themselves."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct


class ExecutionEnds(Construct):
    """Failed, timed out and stopped executions of our machine, to `report`; what cannot be delivered is kept."""

    def __init__(
        self, scope: Construct, construct_id: str, machine: sfn.IStateMachine, report: lambda_.IFunction
    ) -> None:
        super().__init__(scope, construct_id)
        undelivered = sqs.Queue(
            self,
            "Undelivered",
            retention_period=Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        events.Rule(
            self,
            "Rule",
            description="Executions of Cosmos Batch that ended badly",
            event_pattern=events.EventPattern(
                source=["aws.states"],
                detail_type=["Step Functions Execution Status Change"],
                detail={"stateMachineArn": [machine.state_machine_arn], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
            ),
            targets=[targets.LambdaFunction(report, dead_letter_queue=undelivered)],
        )
