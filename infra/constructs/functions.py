"""Create the Lambda functions, which share a zip and a layer, and have a role each."""

from pathlib import Path

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from cosmos_batch.contract.environment import FUNCTION_MEBIBYTES, Environment
from infra.layer import layer_folder

ROOT = Path(__file__).resolve().parents[2]
# The files of the repository that a function's zip contains, as patterns for CDK's ignore mode `DOCKER`.
CACHES = ["**/__pycache__", "**/*.pyc"]
CODE = [
    "*",
    "!lambdas/**/*.py",
    "lambdas/handlers/image_build.py",
    "lambdas/builds",
    "!cosmos_batch/__init__.py",
    "!cosmos_batch/catalogue",
    "!cosmos_batch/contract",
    "!cosmos_batch/planning",
    "!cosmos_batch/state",
    "cosmos_batch/console",  # named, or CDK would walk its folders to find nothing
    *CACHES,
]
# `image_build` has a zip of its own and no layer, so that an edit of another function does not change its stack.
IMAGE_BUILD_CODE = [
    "*",
    *(
        f"!lambdas/{module}.py"
        for module in (
            "__init__",
            "cloudformation",
            "log",
            "handlers/__init__",
            "handlers/image_build",
            "builds/__init__",
            "builds/images",
        )
    ),
    *CACHES,
]
RUNTIME = lambda_.Runtime.PYTHON_3_12
ARCHITECTURE = lambda_.Architecture.ARM_64


def code(files: list[str] = CODE) -> lambda_.AssetCode:
    """Return the asset of `lambdas` and of what it imports from `cosmos_batch`; equal files give an equal asset."""
    return lambda_.Code.from_asset(str(ROOT), exclude=files, ignore_mode=IgnoreMode.DOCKER)


class Functions(Construct):
    """Creates the functions of `lambdas/handlers/`.

    They share the zip of `files`, and the layer with the dependencies if `layer` is true.
    """

    def __init__(
        self, scope: Construct, construct_id: str, tracing: bool, files: list[str] = CODE, layer: bool = True
    ) -> None:
        super().__init__(scope, construct_id)
        self.created: dict[str, lambda_.Function] = {}
        self._tracing = lambda_.Tracing.ACTIVE if tracing else lambda_.Tracing.DISABLED
        self._code = code(files)
        self._layers = [self._dependencies()] if layer else []

    def create(
        self,
        module: str,
        environment: Environment,
        timeout: Duration,
        construct_id: str | None = None,
        name: str | None = None,
    ) -> lambda_.Function:
        """Create the function whose entry point is `lambdas/handlers/<module>.py`.

        Its role may write its own log; everything else has to be granted. `name` fixes the deployed name; without it
        CloudFormation chooses one.
        """
        construct_id = construct_id or "".join(word.title() for word in module.split("_"))
        log = logs.LogGroup(
            self,
            f"{construct_id}Log",
            removal_policy=RemovalPolicy.DESTROY,
        )
        # Not Lambda's managed policy, which would allow each function to write every log group of the account.
        role = iam.Role(self, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log.grant_write(role)
        self.created[construct_id] = lambda_.Function(
            self,
            construct_id,
            description=f"Cosmos Batch: lambdas/handlers/{module}.py",
            function_name=name,
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=f"lambdas.handlers.{module}.handler",
            code=self._code,
            layers=self._layers,
            environment=environment.variables(),
            timeout=timeout,
            memory_size=FUNCTION_MEBIBYTES,
            role=role,
            log_group=log,
            tracing=self._tracing,
        )
        return self.created[construct_id]

    def _dependencies(self) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            self,
            "Dependencies",
            description="lambdas/requirements.txt",
            code=lambda_.Code.from_asset(str(layer_folder())),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
        )
