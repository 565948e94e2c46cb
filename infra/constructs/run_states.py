"""The states of the state machine that feed a run's shards and finish it (decision 074)."""

from dataclasses import dataclass

import jsii
from aws_cdk import Aws, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_stepfunctions as sfn
from aws_cdk import aws_stepfunctions_tasks as tasks
from constructs import Construct

from cosmos_batch.contract.job import PLAN_AGAIN
from cosmos_batch.contract.settings import QUEUE_DAYS
from infra.constructs.function_calls import EXECUTION, add_retry, call
from infra.constructs.function_errors import EVERYTHING, PASSING, REFUSED
from infra.constructs.permissions import SHARDS

# An item waits a day less at most (`lambdas/runs/item_planner.py`).
SHARD_TIMEOUT = Duration.days(QUEUE_DAYS)
# The longest time that a run takes; AWS would let an execution take a year.
RUN_TIMEOUT = Duration.days(90)
ATTEMPTS = 8
# A call that Lambda or another service throttles is tried for about three days: many shards may wait for an account's
# few concurrent functions, and none of their items is at fault. Each attempt adds some events to the execution's
# history, which ends at 25,000.
PATIENT_ATTEMPTS = 2000
# How often the items of one shard may be planned again because of deployments; each adds events to that history too.
DEPLOYMENTS = 1000


@dataclass(frozen=True)
class RunFunctions:
    """The functions that the states of a run call."""

    prepare: lambda_.Function
    feed: lambda_.Function
    collect: lambda_.Function
    finish: lambda_.Function


@jsii.implements(sfn.IItemReader)
class ListOfShards:
    """Reads the list of a run's shards from S3. CDK's own reader would be granted all objects of the bucket."""

    def __init__(self, bucket: s3.IBucket) -> None:
        self._bucket = bucket

    @property
    def bucket(self) -> s3.IBucket:
        """Return the bucket with the list."""
        return self._bucket

    @property
    def bucket_name_path(self) -> None:
        """Return no path: the bucket is always the same."""
        return

    @property
    def max_items(self) -> None:
        """Return no limit of items."""
        return

    @property
    def resource(self) -> str:
        """Return the call that reads the list."""
        return f"arn:{Aws.PARTITION}:states:::s3:getObject"

    def render(self, query_language: sfn.QueryLanguage | None = None) -> dict[str, object]:  # noqa: ARG002 - JSONPath
        """Return the reader as the state machine's definition has it."""
        return {
            "Resource": self.resource,
            "ReaderConfig": {"InputType": "JSON"},
            "Parameters": {"Bucket": self._bucket.bucket_name, "Key.$": "$.key"},
        }

    def provide_policy_statements(self) -> list[iam.PolicyStatement]:
        """Return what the state machine needs to read the list."""
        return [
            iam.PolicyStatement(
                actions=["s3:GetObject"], resources=[self._bucket.arn_for_objects("runs/*/shards*.json")]
            )
        ]

    def validate_item_reader(self) -> list[str]:
        """Return no errors."""
        return []


class RunStates(Construct):
    """The states of a run: prepare it, feed its shards in Distributed Maps and collect each, finish it.

    Each pipeline of the run has a map with slots of its own, so that a slow pipeline keeps no other waiting. `start` is
    the first state. The maps tolerate that shards fail, for each says so itself; whatever fails still comes to
    `FinishRun`.
    """

    def __init__(self, scope: Construct, construct_id: str, functions: RunFunctions, bucket: s3.IBucket) -> None:
        super().__init__(scope, construct_id)
        execution = {**EXECUTION, "input.$": "$$.Execution.Input"}
        finished = call(self, "FinishRun", functions.finish, {"execution": execution})
        failed = call(self, "FinishFailedRun", functions.finish, {"execution": execution, "error.$": "$"})
        for finish in (finished, failed):
            _retry_faults(finish)
            finish.next(self._end(finish.node.id))
        prepared = call(
            self, "PrepareRun", functions.prepare, {"request.$": "$$.Execution.Input", "execution": EXECUTION}
        )
        add_retry(prepared, [REFUSED], 0)
        _retry_faults(prepared)
        prepared.add_catch(failed, errors=EVERYTHING, result_path="$")
        pipelines = sfn.Map(self, "EachPipeline", items_path="$.pipelines", result_path=sfn.JsonPath.DISCARD)
        pipelines.item_processor(self._shards(functions, bucket))
        pipelines.add_catch(failed, errors=EVERYTHING, result_path="$")
        self.start = prepared.next(pipelines).next(finished)

    def _shards(self, functions: RunFunctions, bucket: s3.IBucket) -> sfn.DistributedMap:
        """Return the map over a pipeline's list of shards in S3. Its children are executions of their own."""
        shards = sfn.DistributedMap(
            self,
            "Shards",
            label=SHARDS,
            map_execution_type=sfn.StateMachineType.STANDARD,
            item_reader=ListOfShards(bucket),
            # The execution of the run, and not of the child that handles the shard.
            item_selector={"shard.$": "$$.Map.Item.Value", "execution": EXECUTION},
            max_concurrency_path="$.maxConcurrency",
            tolerated_failure_percentage=100,
            result_path=sfn.JsonPath.DISCARD,
        )
        shards.item_processor(self._shard(functions))
        add_retry(shards, ["States.ItemReaderFailed"], ATTEMPTS)
        return shards

    def _shard(self, functions: RunFunctions) -> sfn.IChainable:
        """Return the states of one shard: feed it, wait until its last item has ended, and collect it."""
        fed = tasks.LambdaInvoke(
            self,
            "Feed",
            lambda_function=functions.feed,
            integration_pattern=sfn.IntegrationPattern.WAIT_FOR_TASK_TOKEN,
            payload=sfn.TaskInput.from_object(
                {
                    "shard": sfn.JsonPath.object_at("$.shard"),
                    "execution": sfn.JsonPath.object_at("$.execution"),
                    "token": sfn.JsonPath.task_token,
                }
            ),
            task_timeout=sfn.Timeout.duration(SHARD_TIMEOUT),
            retry_on_service_exceptions=False,
            result_path=sfn.JsonPath.DISCARD,
        )
        add_retry(fed, [REFUSED, "States.Timeout"], 0)
        add_retry(fed, [PLAN_AGAIN], DEPLOYMENTS)
        _retry_faults(fed)
        collected = call(self, "Collect", functions.collect, {"shard.$": "$.shard"})
        broken = call(self, "CollectBroken", functions.collect, {"shard.$": "$.shard", "error.$": "$.error"})
        for collect in (collected, broken):
            _retry_faults(collect)
        fed.add_catch(broken, errors=EVERYTHING, result_path="$.error")
        return fed.next(collected)

    def _end(self, name: str) -> sfn.IChainable:
        succeeded = sfn.Succeed(self, f"{name}Succeeded", output_path="$.summary")
        failed = sfn.Fail(self, f"{name}Failed", error_path="$.error", cause_path="$.cause")
        return sfn.Choice(self, f"{name}Ended").when(sfn.Condition.is_null("$.error"), succeeded).otherwise(failed)


def _retry_faults(state: tasks.LambdaInvoke) -> None:
    add_retry(state, PASSING, PATIENT_ATTEMPTS)
    add_retry(state, EVERYTHING, ATTEMPTS)
