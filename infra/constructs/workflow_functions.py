"""The functions that the state machine calls, and the one that answers for dead letters."""

import hashlib
import json
from collections.abc import Sequence

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn

from cosmos_batch.contract.environment import (
    DeadLetterEnvironment,
    PlanEnvironment,
    ReportEnvironment,
)
from cosmos_batch.contract.vams import VamsSettings
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_objects
from infra.constructs.pipeline import Pipeline, allow_parameters
from infra.constructs.vams import allow_run_errors, allow_vams_callback
from infra.stacks.storage import StorageStack

TIMEOUT = Duration.minutes(1)


def create_plan(
    functions: Functions,
    storage: StorageStack,
    pipelines: Sequence[Pipeline],
    nudges: sqs.Queue,
    deadline: Duration,
) -> lambda_.Function:
    """`plan`: it looks at the input, keeps a long prompt, reserves the output's key and writes the job's row."""
    environment = PlanEnvironment(
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        asset_buckets=storage.assets.roots,
        pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
        pipelines_digest=_digest(pipelines),
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


def _digest(pipelines: Sequence[Pipeline]) -> str:
    """Of what the parameters will say, as far as synthesis knows it: a deployed name is the reference to it."""
    texts = [Stack.of(pipeline).resolve(pipeline.parameter_text) for pipeline in pipelines]
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


def create_report(functions: Functions, storage: StorageStack, vams: VamsSettings | None) -> lambda_.Function:
    """`report`: it closes the job's row, answers VAMS, and publishes the end on the account's default bus.

    It writes an error beside the file whose upload started the job, too.
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
    functions: Functions, storage: StorageStack, pipelines: Sequence[Pipeline], machine: sfn.StateMachine
) -> lambda_.Function:
    """`dead_letter`: it fails the jobs of all dead-letter queues, so that nobody waits for them."""
    environment = DeadLetterEnvironment(state_table=storage.table.table_name)
    dead_letter = functions.create("dead_letter", environment, TIMEOUT)
    storage.table.grant_calls(dead_letter, "GetItem", "UpdateItem")
    allow(dead_letter, ["states:SendTaskFailure"], [machine.state_machine_arn])
    for pipeline in pipelines:
        letters = pipeline.queue.dead_letters
        dead_letter.add_event_source(
            event_sources.SqsEventSource(letters, batch_size=10, report_batch_item_failures=True)
        )
    return dead_letter
