"""Queues between EventBridge and a function, and the patterns of the events that go into them.

A queue limits how fast a burst of events reaches the function, and keeps an event that the function fails on.
"""

from collections.abc import Iterable

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.s3 import REASONER_DOCUMENTS
from infra.constructs.asset_buckets import AssetBucket
from infra.constructs.permissions import allow_rules, as_target

BATCH_SIZE = 10
# StartExecution's rate limit is 150 to 300 calls a second, and one function makes some tens of calls a second.
MAX_CONCURRENCY = 10


class EventQueue(Construct):
    """Events that match `patterns` wait in `queue`, and after `max_receives` failures in `undelivered`.

    Without a queue, EventBridge would invoke the function asynchronously, and Lambda drops an event after two retries.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        description: str,
        patterns: Iterable[events.EventPattern],
        function_timeout: Duration,
        max_receives: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.undelivered = self._queue("Undelivered")
        self.queue = self._queue(
            "Queue",
            visibility_timeout=function_timeout.plus(Duration.minutes(5)),  # AWS advises six times the timeout
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.undelivered, max_receive_count=max_receives),
        )
        allow_rules(self.queue)
        allow_rules(self.undelivered)
        target = targets.SqsQueue(as_target(self.queue), dead_letter_queue=as_target(self.undelivered))
        for number, pattern in enumerate(patterns):
            events.Rule(self, f"Rule{number}", description=description, event_pattern=pattern, targets=[target])

    def feed(self, function: lambda_.Function) -> None:
        """Let the function receive the events, with limited concurrency."""
        function.add_event_source(
            event_sources.SqsEventSource(
                self.queue, batch_size=BATCH_SIZE, max_concurrency=MAX_CONCURRENCY, report_batch_item_failures=True
            )
        )

    def _queue(
        self,
        construct_id: str,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            retention_period=Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )


def object_created(bucket: AssetBucket) -> events.EventPattern:
    """Return the pattern of S3's event for a new object in an asset bucket, below its prefix if it has one.

    Documents of reasoners start nothing. Of a million items they would be a million messages and invocations. A bucket
    with a prefix has them nevertheless, because a field of a pattern matches if one of its filters does.
    """
    key = {"prefix": bucket.prefix} if bucket.prefix else {"anything-but": {"wildcard": REASONER_DOCUMENTS}}
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket.bucket.bucket_name]}, "object": {"key": [key]}},
    )


def execution_failed(machine: sfn.IStateMachine) -> events.EventPattern:
    """Return the pattern of the event for an execution that failed, timed out or was stopped."""
    return events.EventPattern(
        source=["aws.states"],
        detail_type=["Step Functions Execution Status Change"],
        detail={"stateMachineArn": [machine.state_machine_arn], "status": ["FAILED", "TIMED_OUT", "ABORTED"]},
    )
