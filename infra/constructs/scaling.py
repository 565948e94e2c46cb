"""How pipelines get their workers."""

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from cosmos_batch.contract.environment import ScaleEnvironment
from cosmos_batch.contract.settings import ScalingSettings
from infra.constructs import nudges
from infra.constructs.functions import Functions
from infra.constructs.nudges import Nudges
from infra.constructs.permissions import allow
from infra.constructs.pipeline import Pipeline
from infra.stacks.storage import StorageStack


class Scaling(Construct):
    """`scale`, and what wakes it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        functions: Functions,
        settings: ScalingSettings,
        pipelines: Sequence[Pipeline],
        nudge: Nudges,
        storage: StorageStack,
    ) -> None:
        super().__init__(scope, construct_id)
        environment = ScaleEnvironment(
            state_table=storage.table.table_name,
            nudge_queue_url=nudge.queue.queue_url,
            pipelines=[pipeline.known_to_scale for pipeline in pipelines],
            scaling=settings,
        )
        scale = functions.create("scale", environment, nudges.TIMEOUT)
        storage.table.grant_calls(scale, "GetItem", "Query", "UpdateItem")
        # Batch has no resource-level permission for what only reads.
        allow(scale, ["batch:ListJobs", "batch:DescribeJobs"], ["*"])
        for pipeline in pipelines:
            _allow_pipeline(scale, pipeline)
            nudge.watch(pipeline.id, pipeline.compute.queue)
        nudge.queue.grant_send_messages(scale)
        nudge.feed(scale)


def _allow_pipeline(scale: iam.IGrantable, pipeline: Pipeline) -> None:
    definition = pipeline.worker.definition.job_definition_arn
    allow(scale, ["batch:SubmitJob"], [pipeline.compute.queue.job_queue_arn, definition])
    allow(
        scale,
        ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"],
        [pipeline.queue.queue.queue_arn],
    )
