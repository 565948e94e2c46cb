"""The function `scale`, which starts and drains the workers of all pipelines."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.environment import ScaleEnvironment
from cosmos_batch.contract.settings import ScalingSettings
from infra.constructs.functions import Functions
from infra.constructs.nudge_queue import TIMEOUT, NudgeQueue
from infra.constructs.permissions import allow, allow_objects, allow_shard_answers
from infra.constructs.pipeline import PipelineResources, allow_parameters
from infra.stacks.storage import StorageStack


class Scaling(Construct):
    """`scale`, its permissions, and the events that invoke it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        functions: Functions,
        settings: ScalingSettings,
        pipelines: Sequence[PipelineResources],
        nudges: NudgeQueue,
        storage: StorageStack,
        machine: sfn.StateMachine,
    ) -> None:
        super().__init__(scope, construct_id)
        environment = ScaleEnvironment(
            state_table=storage.table.table_name,
            state_bucket=storage.state.bucket_name,
            nudge_queue_url=nudges.queue.queue_url,
            pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
            scaling=settings,
        )
        scale = functions.create("scale", environment, TIMEOUT)
        storage.table.grant_calls(scale, "GetItem", "Query", "UpdateItem")
        allow_parameters(scale, pipelines)
        # IAM has no resource-level permissions for these actions.
        describe = ("DescribeJobs", "DescribeJobQueues", "DescribeComputeEnvironments")
        allow(scale, [f"batch:{call}" for call in describe], ["*"])
        jobs = f"arn:{Aws.PARTITION}:batch:{Aws.REGION}:{Aws.ACCOUNT_ID}:job/*"
        allow(scale, ["batch:TagResource", "batch:TerminateJob"], [jobs])
        allow(scale, ["sqs:SendMessage"], [nudges.queue.queue_arn])
        # For the jobs of a queue whose workers cannot start, and for shards of runs whose last answer was lost.
        allow(scale, ["states:SendTaskFailure"], [machine.state_machine_arn])
        allow_shard_answers(scale, machine)
        for objects in ("runs/*/planned/*", "runs/*/run.json"):
            allow_objects(scale, storage.state, objects, "GetObject")
        if pipelines:
            _allow_pipelines(scale, pipelines)
        for pipeline in pipelines:
            nudges.send_batch_events(pipeline.id, pipeline.compute.queue)
        nudges.invoke(scale)


def _allow_pipelines(scale: iam.IGrantable, pipelines: Sequence[PipelineResources]) -> None:
    """Allow the calls for each pipeline, in two statements for all: an inline policy has 10,240 characters."""
    definitions = [pipeline.worker.definition.job_definition_arn for pipeline in pipelines]
    job_queues = [pipeline.compute.queue.job_queue_arn for pipeline in pipelines]
    allow(scale, ["batch:SubmitJob"], [*job_queues, *definitions])
    allow(
        scale,
        ["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"],
        [pipeline.queue.queue.queue_arn for pipeline in pipelines],
    )
