"""How pipelines get their workers."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.environment import ScaleEnvironment
from cosmos_batch.contract.settings import ScalingSettings
from infra.constructs.functions import Functions
from infra.constructs.nudge_queue import TIMEOUT, NudgeQueue
from infra.constructs.permissions import allow
from infra.constructs.pipeline import Pipeline, allow_parameters
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
        nudges: NudgeQueue,
        storage: StorageStack,
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, construct_id)
        environment = ScaleEnvironment(
            state_table=storage.table.table_name,
            nudge_queue_url=nudges.queue.queue_url,
            pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
            scaling=settings,
        )
        scale = functions.create("scale", environment, TIMEOUT)
        storage.table.grant_calls(scale, "GetItem", "Query", "UpdateItem")
        allow_parameters(scale, pipelines)
        # Batch has no resource-level permission for these.
        describe = ("DescribeJobs", "DescribeJobQueues", "DescribeComputeEnvironments")
        allow(scale, [f"batch:{call}" for call in describe], ["*"])
        jobs = f"arn:{Aws.PARTITION}:batch:{Aws.REGION}:{Aws.ACCOUNT_ID}:job/*"
        allow(scale, ["batch:TagResource", "batch:TerminateJob"], [jobs])
        allow(scale, ["sqs:SendMessage"], [nudges.queue.queue_arn])
        allow(scale, ["states:SendTaskFailure"], [machine.state_machine_arn])  # to a queue that nobody will serve
        for pipeline in pipelines:
            _allow_pipeline(scale, pipeline)
            nudges.watch(pipeline.id, pipeline.compute.queue)
        nudges.feed(scale)


def _allow_pipeline(scale: iam.IGrantable, pipeline: Pipeline) -> None:
    definition = pipeline.worker.definition.job_definition_arn
    allow(scale, ["batch:SubmitJob"], [pipeline.compute.queue.job_queue_arn, definition])
    allow(
        scale,
        ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage"],
        [pipeline.queue.queue.queue_arn],
    )
