"""Managed policies for people: a viewer reads runs, and an operator plans, starts and stops them too."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.s3 import UPLOAD_FOLDER
from infra.constructs.asset_buckets import AssetBucket
from infra.constructs.permissions import allow, allow_key, allow_list, allow_objects
from infra.constructs.pipeline import PipelineResources
from infra.constructs.policy_series import create_policies
from infra.stacks.storage import StorageStack


class PoliciesForPeople(Construct):
    """The policies. Who has the operator's needs no other. Attach them to groups, roles or permission sets.

    Each of the two is one policy, and has further ones if there are more adopted buckets than it has room for.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        storage: StorageStack,
        machine: sfn.StateMachine,
        pipelines: Sequence[PipelineResources],
    ) -> None:
        super().__init__(scope, construct_id)
        # CDK then merges statements, so that one policy has room for more.
        self.node.set_context("@aws-cdk/aws-iam:minimizePolicies", True)
        self._storage, self._machine, self._pipelines = storage, machine, pipelines
        assets = storage.assets.all
        self.viewer = create_policies(
            self, "Viewer", "Read runs of Cosmos Batch and their files", assets, self._allow_viewing, _allow_reading
        )
        self.operator = create_policies(
            self, "Operator", "Plan, start, stop and read these runs", assets, self._allow_all, _allow_using
        )

    def _allow_all(self, policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
        """Allow what an operator does."""
        self._allow_viewing(policy, assets)
        self._allow_planning(policy, assets)
        self._allow_starting_and_stopping(policy, assets)

    def _allow_viewing(self, policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
        """Allow to read the rows, tables and logs of runs, their executions, the documents, and the files."""
        allow(policy, ["cloudformation:DescribeStacks"], ["*"])  # the command looks for the stacks by their names
        self._storage.table.grant_calls(policy, "GetItem", "Query")
        allow_objects(policy, self._storage.state, "runs/*", "GetObject")
        allow_list(policy, self._storage.state, "runs/")
        self._machine.grant_execution(policy, "states:DescribeExecution")
        _allow_reading(policy, assets)
        _allow_worker_logs(policy, self._pipelines)

    def _allow_planning(self, policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
        """Allow to list inputs, and to look at everything that would stop a run, as `doctor` does."""
        _allow_listing(policy, assets)
        allow_list(policy, self._storage.models, "models/")
        allow_objects(policy, self._storage.models, "models/*/manifest.json", "GetObject")
        if self._pipelines:
            allow(policy, ["ssm:GetParameter"], [pipeline.parameter.parameter_arn for pipeline in self._pipelines])
        allow(policy, ["servicequotas:GetServiceQuota", "ec2:DescribeInstanceTypeOfferings"], ["*"])

    def _allow_starting_and_stopping(self, policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
        """Allow to upload files of a person's machine, to write what is asked, and to begin and stop executions."""
        _allow_uploading(policy, assets)
        allow_objects(policy, self._storage.state, "runs/*", "PutObject", "AbortMultipartUpload")
        self._storage.table.grant_calls(policy, "UpdateItem")
        self._machine.grant_start_execution(policy)
        self._machine.grant_execution(policy, "states:StopExecution")


def _allow_using(policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
    """Allow to use asset buckets as an operator does."""
    _allow_reading(policy, assets)
    _allow_listing(policy, assets)
    _allow_uploading(policy, assets)


def _allow_reading(policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
    for asset in assets:
        allow_objects(policy, asset.bucket, f"{asset.prefix}*", "GetObject")
        if asset.key_arn is not None:
            allow_key(policy, asset.key_arn, "s3")


def _allow_listing(policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
    for asset in assets:
        asset.allow_listing(policy)


def _allow_uploading(policy: iam.ManagedPolicy, assets: Sequence[AssetBucket]) -> None:
    for asset in assets:
        place = f"{asset.prefix}{UPLOAD_FOLDER}/*"
        allow_objects(policy, asset.bucket, place, "PutObject", "AbortMultipartUpload")
        if asset.key_arn is not None:
            allow_key(policy, asset.key_arn, "s3", writes=True)


def _allow_worker_logs(policy: iam.ManagedPolicy, pipelines: Sequence[PipelineResources]) -> None:
    """Allow to read what the worker of an item has logged. It is a Batch job, of which Batch knows the stream.

    One pattern stands for the logs of all workers, because thirteen ARNs would take a quarter of the policy.
    CloudFormation calls them `<stack>-<logical id>-<suffix>`, and the id is that of `Log` of a `Worker`.
    """
    if pipelines:
        allow(policy, ["batch:DescribeJobs", "batch:DescribeJobDefinitions"], ["*"])
        logs = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:{Aws.STACK_NAME}-*WorkerLog*"
        allow(policy, ["logs:GetLogEvents"], [logs])
