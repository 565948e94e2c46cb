"""The functions of runs, each with the rights that it needs."""

from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from cosmos_batch.contract.environment import (
    CollectEnvironment,
    FeedEnvironment,
    FinishRunEnvironment,
    PrepareRunEnvironment,
)
from cosmos_batch.contract.vams import VamsSettings
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_list, allow_objects
from infra.constructs.pipeline import PipelineResources, allow_parameters
from infra.constructs.run_states import RunFunctions
from infra.constructs.vams import allow_run_errors, allow_vams_callback
from infra.stacks.storage import StorageStack

LISTING_TIMEOUT = Duration.minutes(15)  # a listing of a million keys takes some minutes
FEED_TIMEOUT, COLLECT_TIMEOUT, FINISH_TIMEOUT = Duration.minutes(5), Duration.minutes(5), Duration.minutes(15)


def create_run_functions(
    functions: Functions,
    storage: StorageStack,
    pipelines: list[PipelineResources],
    pipelines_digest: str,
    nudges: sqs.Queue,
    vams: VamsSettings | None,
) -> RunFunctions:
    """Create the functions of runs, each with what it needs."""
    return RunFunctions(
        _create_prepare(functions, storage, pipelines),
        _create_feed(functions, storage, pipelines, pipelines_digest, nudges),
        _create_collect(functions, storage),
        _create_finish(functions, storage, vams),
    )


def _create_prepare(
    functions: Functions, storage: StorageStack, pipelines: list[PipelineResources]
) -> lambda_.Function:
    """Create the function that lists a run's inputs and writes its row."""
    environment = PrepareRunEnvironment(
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        asset_buckets=storage.assets.roots,
        pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
    )
    prepare = functions.create("prepare_run", environment, LISTING_TIMEOUT)
    storage.assets.allow_listing(prepare)
    allow_objects(prepare, storage.state, "runs/*", "GetObject", "PutObject")
    allow_list(prepare, storage.state, "runs/")
    storage.table.grant_calls(prepare, "GetItem", "PutItem", "UpdateItem")
    allow_parameters(prepare, pipelines)
    return prepare


def _create_feed(
    functions: Functions,
    storage: StorageStack,
    pipelines: list[PipelineResources],
    pipelines_digest: str,
    nudges: sqs.Queue,
) -> lambda_.Function:
    """Create the function that plans the items of a shard and sends them to the queue."""
    environment = FeedEnvironment(
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        asset_buckets=storage.assets.roots,
        pipeline_parameters=[pipeline.parameter.parameter_name for pipeline in pipelines],
        pipelines_digest=pipelines_digest,
        nudge_queue_url=nudges.queue_url,
    )
    feed = functions.create("feed", environment, FEED_TIMEOUT)
    storage.assets.allow_input(feed)
    allow_objects(feed, storage.state, "runs/*", "GetObject")
    allow_objects(feed, storage.state, "runs/*/planned/*", "PutObject")
    allow_objects(feed, storage.state, "requests/*", "GetObject", "PutObject")
    allow_list(feed, storage.state, "runs/")
    storage.table.grant_calls(feed, "GetItem", "PutItem", "UpdateItem")
    allow(feed, ["sqs:SendMessage"], [nudges.queue_arn, *(pipeline.queue.queue.queue_arn for pipeline in pipelines)])
    allow_parameters(feed, pipelines)
    return feed


def _create_collect(functions: Functions, storage: StorageStack) -> lambda_.Function:
    """Create the function that writes the lines of a shard that has ended."""
    environment = CollectEnvironment(state_table=storage.table.table_name, state_bucket=storage.state.bucket_name)
    collect = functions.create("collect", environment, COLLECT_TIMEOUT)
    _allow_collecting(collect, storage)
    return collect


def _create_finish(functions: Functions, storage: StorageStack, vams: VamsSettings | None) -> lambda_.Function:
    """Create the function that sums up a run and tells its caller."""
    environment = FinishRunEnvironment(
        state_table=storage.table.table_name,
        state_bucket=storage.state.bucket_name,
        callback_role_arn=vams.callback_role_arn if vams else None,
    )
    finish = functions.create("finish_run", environment, FINISH_TIMEOUT)
    _allow_collecting(finish, storage)
    allow_objects(finish, storage.state, "runs/*/summary.json", "PutObject")
    storage.table.grant_calls(finish, "DeleteItem", "Query")
    allow_vams_callback(finish, vams, "SendTaskSuccess", "SendTaskFailure")
    if vams is not None:
        allow_run_errors(finish, vams)
    bus = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:event-bus/default"
    allow(finish, ["events:PutEvents"], [bus])
    return finish


def _allow_collecting(function: iam.IGrantable, storage: StorageStack) -> None:
    """Allow a function to read what became of a shard's items, and to write its lines of the run's tables."""
    allow_objects(function, storage.state, "runs/*", "GetObject")
    allow_objects(function, storage.state, "jobs/*", "GetObject")
    for folder in ("results", "errors"):
        allow_objects(function, storage.state, f"runs/*/{folder}/*", "PutObject")
    allow_list(function, storage.state, "runs/")
    storage.table.grant_calls(function, "GetItem", "UpdateItem")
