"""Two managed policies for people: a viewer reads runs, and an operator plans, starts and stops them too."""

from collections.abc import Sequence

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from cosmos_batch.contract.s3 import UPLOAD_FOLDER
from infra.constructs.permissions import allow, allow_key, allow_list, allow_objects
from infra.constructs.pipeline import PipelineResources
from infra.stacks.storage import StorageStack


class PoliciesForPeople(Construct):
    """The policies. Who has the operator's needs no other. Attach them to groups, roles or permission sets."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        storage: StorageStack,
        machine: sfn.StateMachine,
        pipelines: Sequence[PipelineResources],
    ) -> None:
        super().__init__(scope, construct_id)
        # CDK then merges statements: IAM refuses a managed policy of more than 6,144 characters.
        self.node.set_context("@aws-cdk/aws-iam:minimizePolicies", True)
        self._storage, self._machine = storage, machine
        self.viewer = iam.ManagedPolicy(self, "Viewer", description="Read runs of Cosmos Batch and their files")
        self.operator = iam.ManagedPolicy(self, "Operator", description="Plan, start, stop and read these runs")
        for policy in (self.viewer, self.operator):
            self._allow_viewing(policy)
            _allow_worker_logs(policy, pipelines)
        self._allow_planning(self.operator, pipelines)
        self._allow_starting_and_stopping(self.operator)

    def _allow_viewing(self, policy: iam.ManagedPolicy) -> None:
        """Allow to read the rows and tables of runs, their executions, the documents, and the files they are about."""
        allow(policy, ["cloudformation:DescribeStacks"], ["*"])  # the command looks for the stacks by their names
        self._storage.table.grant_calls(policy, "GetItem", "Query")
        allow_objects(policy, self._storage.state, "runs/*", "GetObject")
        allow_list(policy, self._storage.state, "runs/")
        self._machine.grant_execution(policy, "states:DescribeExecution")
        for asset in self._storage.assets.all:
            allow_objects(policy, asset.bucket, f"{asset.prefix}*", "GetObject")
            if asset.key_arn is not None:
                allow_key(policy, asset.key_arn, "s3")

    def _allow_planning(self, policy: iam.ManagedPolicy, pipelines: Sequence[PipelineResources]) -> None:
        """Allow to list inputs, and to look at everything that would stop a run, as `doctor` does."""
        self._storage.assets.allow_listing(policy)
        allow_list(policy, self._storage.models, "models/")
        allow_objects(policy, self._storage.models, "models/*/manifest.json", "GetObject")
        if pipelines:
            allow(policy, ["ssm:GetParameter"], [pipeline.parameter.parameter_arn for pipeline in pipelines])
        allow(policy, ["servicequotas:GetServiceQuota", "ec2:DescribeInstanceTypeOfferings"], ["*"])

    def _allow_starting_and_stopping(self, policy: iam.ManagedPolicy) -> None:
        """Allow to upload files of a person's machine, to write what is asked, and to begin and stop executions."""
        for asset in self._storage.assets.all:
            place = f"{asset.prefix}{UPLOAD_FOLDER}/*"
            allow_objects(policy, asset.bucket, place, "PutObject", "AbortMultipartUpload")
            if asset.key_arn is not None:
                allow_key(policy, asset.key_arn, "s3", writes=True)
        allow_objects(policy, self._storage.state, "runs/*", "PutObject", "AbortMultipartUpload")
        self._storage.table.grant_calls(policy, "UpdateItem")
        self._machine.grant_start_execution(policy)
        self._machine.grant_execution(policy, "states:StopExecution")


def _allow_worker_logs(policy: iam.ManagedPolicy, pipelines: Sequence[PipelineResources]) -> None:
    """Allow to read what the worker of an item has logged. It is a Batch job, of which Batch knows the stream.

    One pattern stands for the logs of all workers, because thirteen ARNs would take a quarter of the policy.
    CloudFormation calls them `<stack>-<logical id>-<suffix>`, and the id is that of `Log` of a `Worker`.
    """
    if pipelines:
        allow(policy, ["batch:DescribeJobs", "batch:DescribeJobDefinitions"], ["*"])
        logs = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group:{Aws.STACK_NAME}-*WorkerLog*"
        allow(policy, ["logs:GetLogEvents"], [logs])
