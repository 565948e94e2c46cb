"""From an object in an asset bucket to `upload`, through a queue that a burst cannot overrun."""

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.asset_buckets import AssetBucket

TIMEOUT = Duration.minutes(1)  # of the function
# StartExecution refills at 150 to 300 a second, and one function starts some tens of them a second.
MAX_CONCURRENCY = 10


class UploadIntake(Construct):
    """EventBridge to SQS to Lambda. EventBridge alone would give up on a throttled function after its retries."""

    def __init__(self, scope: Construct, construct_id: str, buckets: Sequence[AssetBucket]) -> None:
        super().__init__(scope, construct_id)
        undelivered = self._queue("DeadLetters")
        self.queue = self._queue(
            "Queue",
            visibility_timeout=TIMEOUT.plus(Duration.minutes(5)),  # six times the function's, as Lambda advises
            dead_letter_queue=sqs.DeadLetterQueue(queue=undelivered, max_receive_count=10),
        )
        for number, bucket in enumerate(buckets):
            events.Rule(
                self,
                f"Rule{number}" if number else "Rule",
                description="Objects that came into an asset bucket",
                event_pattern=_object_created(bucket),
                targets=[targets.SqsQueue(self.queue, dead_letter_queue=undelivered)],
            )

    def feed(self, upload: lambda_.Function) -> None:
        """Give the events to the function, a few at a time."""
        upload.add_event_source(
            event_sources.SqsEventSource(
                self.queue, batch_size=10, max_concurrency=MAX_CONCURRENCY, report_batch_item_failures=True
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


def _object_created(bucket: AssetBucket) -> events.EventPattern:
    below = {"object": {"key": [{"prefix": bucket.prefix}]}} if bucket.prefix else {}
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=["Object Created"],
        detail={"bucket": {"name": [bucket.bucket.bucket_name]}, **below},
    )
