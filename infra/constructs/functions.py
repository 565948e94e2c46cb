"""The Lambda functions: one code asset, one layer, a role of its own for each."""

from pathlib import Path

from aws_cdk import Duration, IgnoreMode, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from cosmos_batch.contract.environment import Environment
from infra.layer import layer_folder

ROOT = Path(__file__).resolve().parents[2]
CODE = [
    "*",
    "!lambdas/*.py",
    "!cosmos_batch/__init__.py",
    "!cosmos_batch/contract",
    "!cosmos_batch/state",
    "**/__pycache__",
    "**/*.pyc",
]
RUNTIME = lambda_.Runtime.PYTHON_3_12
ARCHITECTURE = lambda_.Architecture.ARM_64


def code() -> lambda_.AssetCode:
    """`lambdas` and what it imports of ours; the same files make the same asset."""
    return lambda_.Code.from_asset(str(ROOT), exclude=CODE, ignore_mode=IgnoreMode.DOCKER)


class Functions(Construct):
    """Makes the functions of `lambdas/`, each from its module's name and its environment model."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        self._code = code()
        self._layer = lambda_.LayerVersion(
            self,
            "Dependencies",
            description="lambdas/requirements.txt",
            code=lambda_.Code.from_asset(str(layer_folder())),
            compatible_runtimes=[RUNTIME],
            compatible_architectures=[ARCHITECTURE],
        )

    def create(
        self,
        module: str,
        environment: Environment,
        timeout: Duration,
        construct_id: str | None = None,
        name: str | None = None,
    ) -> lambda_.Function:
        """The function of `lambdas/<module>.py`. It may write its log and nothing else until something is granted.

        `name` fixes the deployed name; without it CloudFormation makes one.
        """
        construct_id = construct_id or "".join(word.title() for word in module.split("_"))
        log = logs.LogGroup(
            self,
            f"{construct_id}Log",
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=RemovalPolicy.DESTROY,
        )
        # Lambda's managed policy would let every function write every log group of the account.
        role = iam.Role(self, f"{construct_id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        log.grant_write(role)
        return lambda_.Function(
            self,
            construct_id,
            description=f"Cosmos Batch: lambdas/{module}.py",
            function_name=name,
            runtime=RUNTIME,
            architecture=ARCHITECTURE,
            handler=f"lambdas.{module}.handler",
            code=self._code,
            layers=[self._layer],
            environment=environment.variables(),
            timeout=timeout,
            memory_size=512,
            role=role,
            log_group=log,
        )
