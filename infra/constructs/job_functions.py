"""The functions that jobs pass through: `upload`, `plan` and `report`.

`dead_letter` and `close_queue` end jobs that no worker will do.
"""

import hashlib
import json
from collections.abc import Sequence

from aws_cdk import Aws, CustomResource, Duration, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from cosmos_batch.contract.config import Config
from cosmos_batch.contract.environment import (
    CloseQueueEnvironment,
    DeadLetterEnvironment,
    PipelineRef,
    PlanEnvironment,
    ReportEnvironment,
    UploadEnvironment,
)
from cosmos_batch.contract.vams import VamsSettings
from cosmos_batch.planning.deployment import enabled_pipelines
from infra.constructs.event_queue import EventQueue
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_objects, allow_shard_answers
from infra.constructs.pipeline import PipelineResources, allow_parameters
from infra.constructs.vams import allow_run_errors, allow_vams_callback
from infra.stacks.storage import StorageStack

TIMEOUT = Duration.minutes(1)  # the timeout of each of these functions but `close_queue`
CLOSE_TIMEOUT = Duration.minutes(15)


def create_plan(
    functions: Functions,
    storage: StorageStack,
    pipelines: Sequence[PipelineResources],
    nudges: sqs.Queue,
    deadline: Duration,
) -> lambda_.Function:
    """Create `plan`, which reads the input, stores long prompts, reserves the output's key and writes the job's row."""
    environment = PlanEnvironment(
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        asset_buckets=storage.assets.roots,
        pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
        pipelines_digest=pipelines_digest(pipelines),
        nudge_queue_url=nudges.queue_url,
        deadline_seconds=int(deadline.to_seconds()),
    )
    plan = functions.create("plan", environment, TIMEOUT)
    storage.assets.allow_input(plan)
    allow_objects(plan, storage.state, "requests/*", "GetObject", "PutObject")
    storage.table.grant_calls(plan, "GetItem", "PutItem", "UpdateItem")
    allow(plan, ["sqs:SendMessage"], [nudges.queue_arn])
    allow_parameters(plan, pipelines)
    return plan


def pipelines_digest(pipelines: Sequence[PipelineResources]) -> str:
    """Return a hash of the pipelines' parameters, so that functions are restarted and read them again when they change.

    Names that CloudFormation chooses are not known at synthesis; the reference to the resource stands for its name.
    """
    texts = [Stack.of(pipeline).resolve(pipeline.parameter_text) for pipeline in pipelines]
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


def create_report(functions: Functions, storage: StorageStack, vams: VamsSettings | None) -> lambda_.Function:
    """Create `report`, which closes the job's row, answers VAMS, and publishes the end on the account's default bus.

    It also writes an error beside the file whose upload started the job.
    """
    environment = ReportEnvironment(
        state_table=storage.table.table_name, callback_role_arn=vams.callback_role_arn if vams else None
    )
    report = functions.create("report", environment, TIMEOUT)
    storage.table.grant_calls(report, "GetItem", "PutItem", "UpdateItem")
    storage.assets.allow_error_documents(report)
    allow_vams_callback(report, vams, "SendTaskSuccess", "SendTaskFailure")
    if vams is not None:
        allow_run_errors(report, vams)
    bus = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"
    allow(report, ["events:PutEvents"], [bus])
    return report


def create_dead_letter(
    functions: Functions, storage: StorageStack, pipelines: Sequence[PipelineResources], machine: sfn.StateMachine
) -> lambda_.Function:
    """Create `dead_letter`, which answers the callers of the jobs in all dead-letter queues."""
    environment = DeadLetterEnvironment(state_table=storage.table.table_name)
    dead_letter = functions.create("dead_letter", environment, TIMEOUT)
    storage.table.grant_calls(dead_letter, "GetItem", "UpdateItem")
    allow(dead_letter, ["states:SendTaskFailure"], [machine.state_machine_arn])
    allow_shard_answers(dead_letter, machine)
    for pipeline in pipelines:
        dead_letter.add_event_source(
            event_sources.SqsEventSource(pipeline.queue.dead_letters, batch_size=10, report_batch_item_failures=True)
        )
    return dead_letter


def create_close_queue(
    functions: Functions, storage: StorageStack, pipelines: Sequence[PipelineResources], machine: sfn.StateMachine
) -> lambda_.Function:
    """Create `close_queue`, which answers the callers of the jobs in the queue of a pipeline that is removed.

    Its rights on a queue are in the queue's own policy, which CloudFormation deletes after the custom resource. In the
    policy of its role they would be gone by then: CloudFormation changes resources before it deletes any.
    """
    environment = CloseQueueEnvironment(state_table=storage.table.table_name)
    close_queue = functions.create("close_queue", environment, CLOSE_TIMEOUT)
    storage.table.grant_calls(close_queue, "GetItem", "Query", "UpdateItem")
    jobs = f"arn:{Aws.PARTITION}:batch:{Aws.REGION}:{Aws.ACCOUNT_ID}:job/*"
    allow(close_queue, ["batch:TerminateJob"], [jobs])
    allow(close_queue, ["states:SendTaskFailure"], [machine.state_machine_arn])
    allow_shard_answers(close_queue, machine)
    for pipeline in pipelines:
        queue = pipeline.queue.queue
        queue.add_to_resource_policy(
            iam.PolicyStatement(
                principals=[close_queue.grant_principal],
                actions=["sqs:GetQueueAttributes", "sqs:ReceiveMessage", "sqs:DeleteMessage"],
                resources=[queue.queue_arn],
            )
        )
        closing = CustomResource(
            pipeline,
            "Closing",
            resource_type="Custom::QueueClosing",
            service_token=close_queue.function_arn,
            service_timeout=CLOSE_TIMEOUT.plus(Duration.minutes(1)),
            properties={"Pipeline": pipeline.id, "QueueUrl": queue.queue_url},
        )
        closing.node.add_dependency(queue)
    return close_queue


def create_upload(
    functions: Functions,
    config: Config,
    storage: StorageStack,
    machine: sfn.StateMachine,
    plan: lambda_.Function,
    intake: EventQueue,
) -> lambda_.Function:
    """Create `upload`, which receives the events of the asset buckets.

    It depends on `plan`, so that a deployment updates `plan` first: an older `plan` would refuse the requests of a
    newer `upload` for fields that it does not know.
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
    upload = functions.create("upload", environment, TIMEOUT)
    upload.node.add_dependency(plan)
    storage.assets.allow_input(upload, "GetObjectTagging", "GetObjectVersionTagging")
    allow_objects(upload, storage.state, "requests/*", "PutObject")
    storage.table.grant_calls(upload, "GetItem")
    machine.grant_start_execution(upload)
    # After a late sidecar `upload` stops the runs that lack it: the file's first run, and those of earlier sidecars.
    storage.assets.allow_versions(upload)
    machine.grant_execution(upload, "states:DescribeExecution", "states:StopExecution")
    allow(upload, ["sqs:SendMessage"], [intake.queue.queue_arn])  # the event waits there for the file's sidecar
    intake.feed(upload)
    return upload
