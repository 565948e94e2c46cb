"""The function that starts executions for an upload; those for VAMS are in `vams`."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.environment import PipelineRef, UploadEnvironment
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.constructs.event_queue import EventQueue
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_objects
from infra.stacks.storage import StorageStack

UPLOAD_TIMEOUT = Duration.minutes(1)  # of the function


def create_upload(
    functions: Functions,
    config: Config,
    storage: StorageStack,
    machine: sfn.StateMachine,
    plan: lambda_.Function,
    intake: EventQueue,
) -> lambda_.Function:
    """`upload`, fed from the asset buckets.

    An update changes `plan` first: what today's `upload` asks for, an older `plan` would refuse as an unknown field.
    """
    environment = UploadEnvironment(
        state_machine_arn=machine.state_machine_arn,
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        upload_queue_url=intake.queue.queue_url,
        pipelines=[
            PipelineRef(id=enabled.pipeline.id, auto_trigger=enabled.auto_trigger)
            for enabled in enabled_pipelines(config)
        ],
        grace_seconds=config.app.cosmos_batch.upload_grace_seconds,
    )
    upload = functions.create("upload", environment, UPLOAD_TIMEOUT)
    upload.node.add_dependency(plan)
    storage.assets.allow_input(upload, "GetObjectTagging", "GetObjectVersionTagging")
    allow_objects(upload, storage.state, "requests/*", "PutObject")
    storage.table.grant_calls(upload, "GetItem")
    machine.grant_start_execution(upload)
    # A late sidecar stops the runs that did not know it: the file's own, and those of its earlier versions.
    storage.assets.allow_versions(upload)
    machine.grant_execution(upload, "states:DescribeExecution", "states:StopExecution")
    allow(upload, ["sqs:SendMessage"], [intake.queue.queue_arn])  # a file waits there for its sidecar
    intake.feed(upload)
    return upload
