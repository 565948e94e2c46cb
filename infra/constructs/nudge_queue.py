"""The queue that invokes `scale`: when a job was planned, when a worker has ended, and every minute."""

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
from infra.constructs.permissions import allow_rules, as_target

TIMEOUT = Duration.minutes(2)  # the timeout of the function that reads the queue


class NudgeQueue(Construct):
    """A FIFO queue whose message group is the pipeline, so that one `scale` at a time works on a pipeline.

    The functions give their nudges a deduplication id. EventBridge cannot set one, so its events are deduplicated by
    their content, which contains an id of the event.
    """

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self.failed = self._queue("Failed", retention_period=Duration.days(14))
        self.queue = self._queue(
            "Queue",
            content_based_deduplication=True,
            delivery_delay=Duration.seconds(NUDGE_SECONDS),
            visibility_timeout=TIMEOUT.plus(Duration.seconds(30)),
            # A failing nudge blocks its message group. After three attempts the next minute's nudge is received.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.failed, max_receive_count=3),
        )
        allow_rules(self.queue)
        self._target = as_target(self.queue)

    def invoke(self, scale: lambda_.Function) -> None:
        """Invoke `scale` with the nudges, and every minute with `{"sweep": true}`: then it nudges all pipelines."""
        scale.add_event_source(event_sources.SqsEventSource(self.queue, batch_size=1, report_batch_item_failures=True))
        events.Rule(
            self,
            "Sweep",
            description="A look at every pipeline of Cosmos Batch",
            schedule=events.Schedule.rate(Duration.minutes(1)),
            targets=[targets.LambdaFunction(scale, event=events.RuleTargetInput.from_object({"sweep": True}))],
        )

    def send_batch_events(self, pipeline: str, job_queue: batch.IJobQueue) -> None:
        """Send the queue Batch's events about a pipeline: a worker has ended, or finds no instance.

        Each pipeline has rules of its own, because the message group in a rule's target is a constant.
        """
        of_queue = {"jobQueue": [job_queue.job_queue_arn]}
        self._add_rule(
            pipeline, "queue-blocked", "Workers of {} that find no instance", "Batch Job Queue Blocked", of_queue
        )
        ended = {**of_queue, "status": ["SUCCEEDED", "FAILED"]}
        self._add_rule(pipeline, "worker-ended", "Workers of {} that ended", "Batch Job State Change", ended)

    def _add_rule(
        self, pipeline: str, name: str, description: str, detail_type: str, detail: dict[str, list[str]]
    ) -> None:
        events.Rule(
            self,
            f"{pipeline}-{name}",
            description=description.format(pipeline),
            event_pattern=events.EventPattern(source=["aws.batch"], detail_type=[detail_type], detail=detail),
            targets=[targets.SqsQueue(self._target, message_group_id=pipeline)],
        )

    def _queue(self, construct_id: str, **settings: Any) -> sqs.Queue:
        return sqs.Queue(
            self, construct_id, fifo=True, encryption=sqs.QueueEncryption.SQS_MANAGED, enforce_ssl=True, **settings
        )
