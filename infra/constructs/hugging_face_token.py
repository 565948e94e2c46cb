"""The secret with the Hugging Face token, whose value appears in no template, asset or log."""

import sys
from pathlib import Path
from uuid import uuid4

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from cosmos_batch.contract.config import UseNvidiaCosmos
from infra.constructs.permissions import allow, allow_key

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "put_secret.py"
OUTPUT = "HuggingFaceTokenSecretArn"  # an output of the storage stack, which `scripts/put_secret.py` reads


class HuggingFaceToken(Construct):
    """The secret that the configuration names, or one that the stack creates."""

    def __init__(self, scope: Construct, construct_id: str, settings: UseNvidiaCosmos) -> None:
        super().__init__(scope, construct_id)
        self.arn = settings.hugging_face_token_secret_arn or self._make_secret()
        self._key_arn = settings.hugging_face_token_secret_key_arn

    def allow(self, grantee: iam.IGrantable) -> None:
        """Allow `grantee` to read the token."""
        allow(grantee, ["secretsmanager:GetSecretValue"], [self.arn])
        if self._key_arn is not None:
            allow_key(grantee, self._key_arn, "secretsmanager")

    def _make_secret(self) -> str:
        token = secretsmanager.CfnSecret(
            self, "Secret", description="Read token of the Hugging Face Hub; without a value until one is set"
        )
        token.apply_removal_policy(RemovalPolicy.DESTROY)
        CfnOutput(self, OUTPUT, value=token.ref).override_logical_id(OUTPUT)
        return token.ref


def put_token_at_deployment(stack: Stack, config_file: Path, storage_stack: str) -> None:
    """Let `cdk deploy` run `scripts/put_secret.py` before it deploys this stack.

    The script is declared as a file asset that a command produces. CDK runs the command when it publishes the assets,
    which is after it has deployed the stacks that this one depends on, in the environment of the person who deploys.
    Synthesis only records the command. The hash is random, because CDK does not produce an asset that exists already.
    """
    stack.synthesizer.add_file_asset(
        executable=[sys.executable, str(SCRIPT), str(config_file.resolve()), storage_stack],
        source_hash=uuid4().hex,
    )
