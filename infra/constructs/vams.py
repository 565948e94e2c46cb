"""The functions that VAMS's workflows invoke, one for each pipeline, and the pipelines' registration with VAMS."""

from aws_cdk import Aws, CustomResource, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from cosmos_batch.contract.environment import Environment, VamsEnvironment
from cosmos_batch.contract.error_documents import FILE_NAME
from cosmos_batch.contract.vams import TASK_TIMEOUT_SECONDS, VamsSettings
from cosmos_batch.planning.deployment import EnabledPipeline
from infra.constructs.functions import Functions
from infra.constructs.permissions import allow, allow_key, allow_objects
from infra.constructs.vams_import import imports
from infra.constructs.workflow import Workflow
from infra.stacks.storage import StorageStack

# The function's timeout: it may write the shards of a run over thousands of files.
CALL_TIMEOUT = Duration.minutes(5)
IMPORT_TIMEOUT = Duration.minutes(15)


class Vams(Construct):
    """The functions that VAMS's workflows invoke. With `settings`, pipelines that want it are registered with VAMS."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        functions: Functions,
        settings: VamsSettings | None,
        storage: StorageStack,
        workflow: Workflow,
    ) -> None:
        super().__init__(scope, construct_id)
        self._functions = functions
        self._settings = settings
        self._storage = storage
        self._workflow = workflow
        self._registrar: lambda_.Function | None = None

    def serve(self, enabled: EnabledPipeline) -> lambda_.Function:
        """Create the function for one pipeline. VAMS may invoke only functions whose names begin with `vams`."""
        pipeline, settings, machine = enabled.pipeline.id, self._settings, self._workflow.machine
        name = f"vams-{pipeline}-cosmos-batch"
        environment = VamsEnvironment(
            state_machine_arn=machine.state_machine_arn,
            state_table=self._storage.table.table_name,
            state_bucket=self._storage.state.bucket_name,
            pipeline=pipeline,
            task_timeout_seconds=int(task_timeout(settings).to_seconds()),
            callback_role_arn=settings.callback_role_arn if settings else None,
            orchestration_bus=_bus_arn(settings),
            log_group_arn=self._workflow.log.log_group_arn,
        )
        function = self._functions.create("vams", environment, CALL_TIMEOUT, f"Vams-{pipeline}", name=name)
        allow_objects(function, self._storage.state, "requests/*", "PutObject")
        allow_objects(function, self._storage.state, "runs/*/run.json", "PutObject")
        for objects in ("shards.json", "shards/*"):  # a repeated call reads the objects that an earlier one has written
            allow_objects(function, self._storage.state, f"runs/*/{objects}", "GetObject", "PutObject")
        self._storage.table.grant_calls(function, "GetItem", "PutItem", "UpdateItem")
        machine.grant_start_execution(function)
        # `vams` answers tokens for runs that it refuses or cannot start, and for repeated calls of ended runs.
        allow_vams_callback(function, settings, "SendTaskFailure", "SendTaskSuccess")
        if settings is not None:
            _allow_inputs(function, settings)
            self._connect(enabled, function, name, settings)
        return function

    def _connect(self, enabled: EnabledPipeline, function: lambda_.Function, name: str, settings: VamsSettings) -> None:
        if settings.callback_role_arn is not None:
            account = settings.callback_role_arn.split(":")[4]
            function.add_permission("VamsOfAnotherAccount", principal=iam.AccountPrincipal(account))
        elif (bus := _bus_arn(settings)) is not None:
            allow(function, ["events:PutEvents"], [bus])
        if settings.import_function_name is None or not enabled.auto_register_with_vams:
            return
        for registered, properties in imports(enabled, name, settings).items():
            self._register(settings.import_function_name, registered, properties).node.add_dependency(function)

    def _register(self, import_function: str, registered: str, properties: dict[str, str]) -> CustomResource:
        return CustomResource(
            self,
            f"Registration-{registered}",
            resource_type="Custom::VamsRegistration",
            service_token=self._make_registrar(import_function).function_arn,
            service_timeout=IMPORT_TIMEOUT.plus(Duration.minutes(1)),
            properties={"ImportFunction": import_function, "Pipeline": registered, "Import": properties},
        )

    def _make_registrar(self, import_function: str) -> lambda_.Function:
        if self._registrar is None:
            self._registrar = self._functions.create("register_vams", Environment(), IMPORT_TIMEOUT)
            function = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function:{import_function}"
            allow(self._registrar, ["lambda:InvokeFunction"], [function])
        return self._registrar


def task_timeout(settings: VamsSettings | None) -> Duration:
    """Return how long a workflow of VAMS waits for a pipeline."""
    return Duration.seconds(settings.task_timeout_seconds if settings else TASK_TIMEOUT_SECONDS)


def allow_vams_callback(grantee: iam.IGrantable, settings: VamsSettings | None, *calls: str) -> None:
    """Allow `grantee` calls such as `SendTaskFailure` with the task tokens of VAMS's workflows.

    These are state machines of this account and region whose names begin with `vams-`. Those of another account are
    answered as a role there.
    """
    if settings is not None and settings.callback_role_arn is not None:
        allow(grantee, ["sts:AssumeRole"], [settings.callback_role_arn])
        return
    machines = f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:stateMachine:vams-*"
    allow(grantee, [f"states:{call}" for call in calls], [machines])


def allow_run_errors(grantee: iam.IGrantable, settings: VamsSettings) -> None:
    """Allow `grantee` to write the document that lists a run's failed files; only VAMS 2.6 has runs on several."""
    for bucket, prefix in settings.runs:
        documents = f"arn:{Aws.PARTITION}:s3:::{bucket}/{prefix}*/files/{FILE_NAME}*"
        allow(grantee, ["s3:PutObject"], [documents])
    if settings.kms_key_arn is not None:
        allow_key(grantee, settings.kms_key_arn, "s3", writes=True)


def _bus_arn(settings: VamsSettings | None) -> str | None:
    """Return the ARN of the orchestration bus, which is in VAMS's account."""
    if settings is None or settings.orchestration_bus_name is None:
        return None
    account = settings.callback_role_arn.split(":")[4] if settings.callback_role_arn else Aws.ACCOUNT_ID
    return f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{account}:event-bus/{settings.orchestration_bus_name}"


def _allow_inputs(function: lambda_.Function, settings: VamsSettings) -> None:
    """Allow a function to read manifests, configurations and metadata, but not the input files."""
    if settings.kms_key_arn is not None:
        allow_key(function, settings.kms_key_arn, "s3")
    for bucket, prefix in settings.execution_inputs:
        arn = f"arn:{Aws.PARTITION}:s3:::{bucket}"
        allow(function, ["s3:GetObject", "s3:GetObjectVersion"], [f"{arn}/{prefix}*"])
        # Without this S3 answers 403, not 404, for an object that does not exist.
        function.add_to_role_policy(
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[arn],
                conditions={"StringLike": {"s3:prefix": f"{prefix}*"}},
            )
        )
