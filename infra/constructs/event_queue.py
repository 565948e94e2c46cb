"""From EventBridge to a function through a queue, which a burst cannot overrun and a fault cannot empty."""

from collections.abc import Iterable

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

BATCH_SIZE = 10
# StartExecution refills at 150 to 300 a second, and one function makes some tens of calls a second.
MAX_CONCURRENCY = 10


class EventQueue(Construct):
    """Events of `patterns` wait in `queue`, and after `max_receives` failures in `undelivered`.

    EventBridge is done when Lambda has taken an event, and Lambda gives it up after two retries: a queue keeps it.
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
            visibility_timeout=function_timeout.plus(Duration.minutes(5)),  # six times the function's, or more
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.undelivered, max_receive_count=max_receives),
        )
        for number, pattern in enumerate(patterns):
            events.Rule(
                self,
                f"Rule{number}",
                description=description,
                event_pattern=pattern,
                targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.undelivered)],
            )

    def feed(self, function: lambda_.Function) -> None:
        """Give the events to the function, a few at a time."""
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
