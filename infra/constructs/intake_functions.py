"""The functions that start executions: for an upload, and for VAMS."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_stepfunctions as sfn

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.environment import PipelineRef, UploadEnvironment, VamsEnvironment
from infra.constructs.event_queue import EventQueue
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_objects, allow_vams_callback
from infra.stacks.storage import StorageStack

UPLOAD_TIMEOUT = Duration.minutes(1)  # of the function
VAMS_TASK_TIMEOUT = Duration.hours(8)  # what VAMS registers a Cosmos pipeline with
# Of the function. What it cannot start it must still refuse, after boto3's own retries, which may take half a minute.
VAMS_TIMEOUT = Duration.minutes(1)


def create_upload(
    functions: Functions, config: Config, storage: StorageStack, machine: sfn.StateMachine, intake: EventQueue
) -> lambda_.Function:
    """`upload`, fed from the asset bucket."""
    environment = UploadEnvironment(
        state_machine_arn=machine.state_machine_arn,
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        upload_queue_url=intake.queue.queue_url,
        pipelines=[
            PipelineRef(id=enabled.pipeline.id, auto_trigger=enabled.auto_trigger)
            for enabled in config.enabled_pipelines()
            if enabled.pipeline.surface == "reasoner"
        ],
        grace_seconds=config.app.cosmos_batch.upload_grace_seconds,
    )
    upload = functions.create("upload", environment, UPLOAD_TIMEOUT)
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


def create_vams(
    functions: Functions, pipeline: str, storage: StorageStack, machine: sfn.StateMachine
) -> lambda_.Function:
    """`vams` for one pipeline: VAMS's body names none, and VAMS may invoke only what is called `vams...`."""
    environment = VamsEnvironment(
        state_machine_arn=machine.state_machine_arn,
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        pipeline=pipeline,
        task_timeout_seconds=int(VAMS_TASK_TIMEOUT.to_seconds()),
    )
    vams = functions.create("vams", environment, VAMS_TIMEOUT, f"Vams-{pipeline}", name=f"vams-{pipeline}-cosmos-batch")
    allow_objects(vams, storage.state, "requests/*", "PutObject")
    storage.table.grant_calls(vams, "PutItem")
    machine.grant_start_execution(vams)
    allow_vams_callback(vams, "SendTaskFailure")  # what `vams` refuses itself
    return vams
