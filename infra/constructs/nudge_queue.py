"""What wakes `scale`: a plan, the end of a worker, every minute."""

from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_batch as batch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cosmos_batch.contract.environment import NUDGE_SECONDS

TIMEOUT = Duration.minutes(2)  # of the function


class NudgeQueue(Construct):
    """A FIFO queue with the pipeline as the message group: one `scale` at a time looks at a pipeline.

    The functions' nudges carry a deduplication id. EventBridge has none to give, so its events are deduplicated by
    their content, in which each has an id of its own.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.failed = self._queue("Failed", retention_period=Duration.days(14))
        self.queue = self._queue(
            "Queue",
            content_based_deduplication=True,
            delivery_delay=Duration.seconds(NUDGE_SECONDS),
            visibility_timeout=TIMEOUT.plus(Duration.seconds(30)),
            # A nudge that fails holds its pipeline up: three times, then the next sweep has its turn.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.failed, max_receive_count=3),
        )

    def feed(self, scale: lambda_.Function) -> None:
        """Give the nudges to the function, and call it every minute: it nudges every pipeline then."""
        scale.add_event_source(event_sources.SqsEventSource(self.queue, batch_size=1, report_batch_item_failures=True))
        events.Rule(
            self,
            "Sweep",
            description="A look at every pipeline of Cosmos Batch",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(scale, event=events.RuleTargetInput.from_object({"sweep": True}))],
        )

    def watch(self, pipeline: str, job_queue: batch.IJobQueue) -> None:
        """Nudge when a worker of the pipeline ends, or finds no instance.

        Rules for each, for a target's message group is a constant.
        """
        of_queue = {"jobQueue": [job_queue.job_queue_arn]}
        self._hear(
            pipeline, "queue-blocked", "Workers of {} that find no instance", "Batch Job Queue Blocked", of_queue
        )
        ended = {**of_queue, "status": ["SUCCEEDED", "FAILED"]}
        self._hear(pipeline, "worker-ended", "Workers of {} that ended", "Batch Job State Change", ended)

    def _hear(self, pipeline: str, name: str, description: str, detail_type: str, detail: dict[str, list[str]]) -> None:
        events.Rule(
            self,
            f"{pipeline}-{name}",
            description=description.format(pipeline),
            event_pattern=events.EventPattern(source=["aws.batch"], detail_type=[detail_type], detail=detail),
            targets=[targets.SqsQueue(self.queue, message_group_id=pipeline)],
        )

    def _queue(self, construct_id: str, **settings: Any) -> sqs.Queue:
        return sqs.Queue(
            self, construct_id, fifo=True, encryption=sqs.QueueEncryption.SQS_MANAGED, enforce_ssl=True, **settings
        )
