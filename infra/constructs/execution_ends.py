"""`report` hears of the executions that could not call it themselves."""

from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

# The event of a stopped execution is the only word of it, and somebody waits for it: with the visibility timeout below
# it is tried for ten hours.
MAX_RECEIVES = 100
MAX_CONCURRENCY = 10  # a thousand executions may be stopped at once


class ExecutionEnds(Construct):
    """Failed, timed out and stopped executions of our machine, through a queue to `report`.

    EventBridge is done when Lambda has taken an event, and Lambda gives it up after two retries: a queue keeps it.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        machine: sfn.IStateMachine,
        report: lambda_.Function,
        report_timeout: Duration,
    ) -> None:
        super().__init__(scope, construct_id)
        undelivered = self._queue("Undelivered")
        queue = self._queue(
            "Queue",
            visibility_timeout=report_timeout.plus(Duration.minutes(5)),  # six times the function's, as Lambda advises
            dead_letter_queue=sqs.DeadLetterQueue(queue=undelivered, max_receive_count=MAX_RECEIVES),
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
            targets=[targets.SqsQueue(queue, dead_letter_queue=undelivered)],
        )
        report.add_event_source(
            event_sources.SqsEventSource(
                queue, batch_size=10, max_concurrency=MAX_CONCURRENCY, report_batch_item_failures=True
            )
        )

    def _queue(self, construct_id: str, **settings: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            retention_period=Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            **settings,
        )
